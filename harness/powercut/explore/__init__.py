# SPDX-License-Identifier: Apache-2.0
"""The crash states of a recording: choose, recover, judge, prune, cut again, go on writing.

The states themselves are defined in `crash`; this room spends time on them.
"""
