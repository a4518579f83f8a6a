# SPDX-License-Identifier: Apache-2.0
"""One seeded run of one cell: record, cut; and the controls that its verdict needs.

Verdicts are the business of `verdict`, many trials that of `campaign`.
"""
