# SPDX-License-Identifier: Apache-2.0
"""Frozen values that every other layer speaks in.  No I/O happens here."""
