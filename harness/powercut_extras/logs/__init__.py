# SPDX-License-Identifier: Apache-2.0
"""Logs of requests that others wrote, the kernel's dm-log-writes and QEMU's blklogwrites: read as
recordings, judged, explored, and written for their tools.
"""
