# SPDX-License-Identifier: Apache-2.0
"""power_switch.py SOCKET off|on|status: says it to whoever holds the switch, prints the answer."""

from __future__ import annotations

import socket
import sys

with socket.socket(socket.AF_UNIX) as switch:
    switch.connect(sys.argv[1])
    switch.sendall(sys.argv[2].encode())
    said = switch.makefile().read()
sys.stdout.write(said)
sys.exit(said.startswith("error"))
