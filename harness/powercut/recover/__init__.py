# SPDX-License-Identifier: Apache-2.0
"""Has a system recover a disk and reports what came back.

Not here: which states are recovered (`explore`), and what a report is worth (`verdict`).
"""
