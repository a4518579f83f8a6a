# SPDX-License-Identifier: Apache-2.0
"""Pages for a browser beside the report of a run: a recording with its time line, all results of a
folder (`serve`), and their history.

Judges nothing, and opens what is stored only to read it.
"""
