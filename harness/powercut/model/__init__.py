# SPDX-License-Identifier: Apache-2.0
"""Frozen values that every other room speaks in.

Not here: I/O, anything of one workload or one backend, and imports of other rooms.
"""
