# SPDX-License-Identifier: Apache-2.0
"""Machines that are there already: reached by ssh, switched by commands, their disks never seen.

What the commands really take away, only their owner knows: no disk is recorded (evidence level
live-only), and a cut shows itself by the machine's new boot id alone.
"""
