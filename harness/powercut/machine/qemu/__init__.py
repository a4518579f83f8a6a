# SPDX-License-Identifier: Apache-2.0
"""QEMU as a machine: command line, process, QMP, RAM templates, accelerators."""
