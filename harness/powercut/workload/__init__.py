# SPDX-License-Identifier: Apache-2.0
"""The port to a workload: what it runs, what it promises, and what must therefore come back.

A folder a kind (`wal/`, `program/`), found by `workload.kind` in a table and loaded when used.
How a guest is started, and where evidence lies, is not known here.
"""
