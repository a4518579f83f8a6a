# SPDX-License-Identifier: Apache-2.0
"""Measures powercut itself: every figure a ratio of two things done in turn in one run."""
