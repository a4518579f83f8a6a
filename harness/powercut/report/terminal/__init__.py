# SPDX-License-Identifier: Apache-2.0
"""What a person reads in a terminal: tables, stories, progress."""
