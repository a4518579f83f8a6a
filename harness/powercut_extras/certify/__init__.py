# SPDX-License-Identifier: Apache-2.0
"""Certificates: what to certify, build, verify, compare, sign and show; known causes of losses; and
what commits cost, measured by runs without a cut.

Not here: how a trial is run or judged.
"""
