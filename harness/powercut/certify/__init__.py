# SPDX-License-Identifier: Apache-2.0
"""Certificates: what to certify, build, verify, compare, sign; known causes of losses.

Not here: how a trial is run or judged, and pages and tables, which are in `report`.
"""
