# SPDX-License-Identifier: Apache-2.0
"""Machines that boot a guest and can be killed: the port and its backends.

Not here: disks (`disk`), what a guest runs (`workload`), and when the power is cut (`trial`).
"""
