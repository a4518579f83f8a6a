# SPDX-License-Identifier: Apache-2.0
"""Runs plans: the only place where machine, disk, channel, recovery and store meet."""
