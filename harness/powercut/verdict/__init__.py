# SPDX-License-Identifier: Apache-2.0
"""From a recording to its verdict: `verdict_of`, and no other way.

Nothing is recovered here: crash states come through the port CrashStates, which `explore` serves.
What many verdicts add up to is the business of `campaign`.
"""
