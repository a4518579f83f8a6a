# SPDX-License-Identifier: Apache-2.0
"""Machines that boot a guest and can be killed: the port and its backends."""
