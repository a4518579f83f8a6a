# SPDX-License-Identifier: Apache-2.0
"""Recordings and results on disk: written before anything is judged.

Not here: judgements, and what a recording means; files are read as hostile input.
"""
