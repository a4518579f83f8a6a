# SPDX-License-Identifier: Apache-2.0
"""Judges: history and observation in, findings out.

Not here: I/O of any kind, recovery, and the verdict on a whole recording, which is `verdict`'s.
"""
