# SPDX-License-Identifier: Apache-2.0
"""Disks that record what they are asked, and can lose their power: the port and its backends.

Not here: machines, what the requests mean to a workload, and judgements.
"""
