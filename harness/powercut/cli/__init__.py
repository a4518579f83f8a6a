# SPDX-License-Identifier: Apache-2.0
"""The command line, one file a command.  It parses, calls, prints and picks the exit status.

What takes time to import is imported by the command that needs it.
"""
