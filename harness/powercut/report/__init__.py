# SPDX-License-Identifier: Apache-2.0
"""What a person reads: tables, the story of one trial, HTML, JUnit.

Not here: anything that runs, recovers or judges.  A report is made from what is stored.
"""
