# SPDX-License-Identifier: Apache-2.0
"""A workload from elsewhere: marks on a bare disk, one a sector.

It has settings, a guest's program, a reader for the host, claims and a check of its own, and is
added to powercut by rows of its tables alone (powercut.scenario.workloads and machines).
"""
