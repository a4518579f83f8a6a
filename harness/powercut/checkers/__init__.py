# SPDX-License-Identifier: Apache-2.0
"""Judges: history and observation in, findings out."""
