# SPDX-License-Identifier: Apache-2.0
"""All trials of all cells: run, resume, add up, verify again, bundle.

What a set of runs says about settings is drawn up in `certify`.
"""
