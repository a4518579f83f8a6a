# SPDX-License-Identifier: Apache-2.0
"""What commits send and what they cost: wire accounts, traces, commits a second.

Runs without a cut, and says nothing about what survives one.
"""
