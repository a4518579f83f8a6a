# SPDX-License-Identifier: Apache-2.0
"""Logs of dm-log-writes and blklogwrites, read and written."""
