# SPDX-License-Identifier: Apache-2.0
"""A finished run to report on."""

from finished_run import made, make

__all__ = ["made", "make"]
