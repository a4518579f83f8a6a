# SPDX-License-Identifier: Apache-2.0
"""All trials of all cells: run, resume, add up, verify again, bundle.

Not here: one trial (`trial`), its verdict (`verdict`), what runs say of settings (`certify`), and
anything that a person reads (`report`).
"""
