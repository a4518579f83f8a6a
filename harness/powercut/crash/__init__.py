# SPDX-License-Identifier: Apache-2.0
"""The crash model: which disks a power cut may leave, and what that means for each ack.

Not here: I/O, recovery, and the time that is spent on states (`explore`).
"""
