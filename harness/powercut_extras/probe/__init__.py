# SPDX-License-Identifier: Apache-2.0
"""Is a sync here as slow as it must be?  Needs no guest and no root.

Not here: cuts, guests and verdicts; a probe says what is impossible, never what is safe.
"""
