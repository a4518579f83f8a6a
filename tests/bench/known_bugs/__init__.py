# SPDX-License-Identifier: Apache-2.0
"""Known bugs of programs and file systems, and powercut's own planted faults, as small programs.

Each keeps the order of the calls or requests that the bug is about, and nothing else of a product;
its honest twin makes the one call that the bug leaves out.  A check in Python says what a state
holds, so that thousands of states a second are judged.
"""
