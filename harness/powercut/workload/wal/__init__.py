# SPDX-License-Identifier: Apache-2.0
"""The WAL workload: a log of powercut's own, whose records name themselves on the disk."""
