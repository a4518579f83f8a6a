# SPDX-License-Identifier: Apache-2.0
"""What a log of the WAL workload looks like: its records, their places, what stands in a slot.

The crash model and the checkers recognise such records; the workload itself, what it runs and
promises, is `workload/wal`.
"""
