# SPDX-License-Identifier: Apache-2.0
"""What a person reads: table, story of one trial, HTML, JUnit.  From the store alone."""
