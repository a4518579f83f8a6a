# SPDX-License-Identifier: Apache-2.0
"""The crash model: which disks a power cut may leave, and what that means for each ack."""
