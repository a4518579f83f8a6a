# SPDX-License-Identifier: Apache-2.0
"""Machines that powercut did not make: over ssh, their power taken by commands; and `listen`, which
hears a workload that runs anywhere.
"""
