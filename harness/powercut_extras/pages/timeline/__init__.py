# SPDX-License-Identifier: Apache-2.0
"""A recording as a time line: what a page needs to draw it, bounded however long it is.

Judges nothing, and opens what is stored only to read it.
"""
