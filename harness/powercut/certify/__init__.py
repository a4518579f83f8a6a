# SPDX-License-Identifier: Apache-2.0
"""Certificates: what to certify, build, verify, compare, sign; known causes of losses.

Shows nothing: pages and tables are in `report`.
"""
