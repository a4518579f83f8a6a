# SPDX-License-Identifier: Apache-2.0
"""Anybody's program: three verbs and a few lines of text (docs/adding-a-program.md)."""
