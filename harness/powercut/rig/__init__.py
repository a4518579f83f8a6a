# SPDX-License-Identifier: Apache-2.0
"""Puts the ports together: which machine, disk, channel and engine a cell means.

Wiring, set-up of a guest, scratch folders, components, recovery engines.  Nothing here cuts
power or judges.
"""
