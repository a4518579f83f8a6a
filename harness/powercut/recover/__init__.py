# SPDX-License-Identifier: Apache-2.0
"""Gives a disk to a system and asks what it makes of it."""
