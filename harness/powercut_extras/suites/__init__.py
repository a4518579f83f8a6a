# SPDX-License-Identifier: Apache-2.0
"""QEMU, kernels, User-Mode Linux and packages of Debian suites that are not the host's.

`powercut.machine.suites` is the port.
"""
