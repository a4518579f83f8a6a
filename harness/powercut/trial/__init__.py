# SPDX-License-Identifier: Apache-2.0
"""One seeded run of one cell: record, cut, judge; and the controls that its verdict needs.

Many trials, and what they add up to, are the business of `campaign`.
"""
