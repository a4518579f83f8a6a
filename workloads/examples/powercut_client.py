#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connects a program on any machine with Python 3.8 to `powercut listen`.

    POWERCUT_TOKEN=5f0c... python3 powercut_client.py HOST:PORT PROGRAM run DIR
    ... python3 powercut_client.py --certificate cert.pem HOST:PORT PROGRAM run DIR

It says the token, and becomes PROGRAM, whose POWERCUT_FD is the connection.  With a certificate it
speaks TLS, as the listener then does, and hands the program's lines on: they are on their way a
little longer, and one that does not arrive before the cut does not count.
"""

import argparse
import os
import signal
import socket
import ssl
import subprocess
import sys


def connection(where: str, certificate: "str | None") -> socket.socket:
    """A connection that has said the token, with TLS if there is a certificate."""
    host, _, port = where.rpartition(":")
    link = socket.create_connection((host.strip("[]"), int(port)))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if certificate:
        context = ssl.create_default_context(cafile=certificate)
        link = context.wrap_socket(link, server_hostname=host.strip("[]"))
    link.sendall(os.environ.pop("POWERCUT_TOKEN").encode() + b"\n")
    return link


def hand_on(link: socket.socket, command: "list[str]") -> int:
    """Runs the command, and hands on what it says."""
    reader, writer = os.pipe()
    environment = dict(os.environ, POWERCUT_FD=str(writer))
    with subprocess.Popen(command, pass_fds=[writer], env=environment) as process:
        os.close(writer)
        while True:
            said = os.read(reader, 65536)
            if not said:
                break
            link.sendall(said)
    link.close()
    return process.returncode


def main() -> None:
    """Connects, and becomes the program."""
    parser = argparse.ArgumentParser(description="Connects a program to `powercut listen`.")
    parser.add_argument("--certificate", help="the listener's certificate: speaks TLS")
    parser.add_argument("where", metavar="HOST:PORT")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM run DIR")
    words = parser.parse_args()
    if not words.command or "POWERCUT_TOKEN" not in os.environ:
        parser.error("the token in POWERCUT_TOKEN, and the program with its words")
    try:
        link = connection(words.where, words.certificate)
    except (OSError, ValueError) as error:
        sys.exit(f"powercut_client: {words.where}: {error}")
    if words.certificate:
        sys.exit(hand_on(link, words.command))
    os.environ["POWERCUT_FD"] = str(link.fileno())
    os.set_inheritable(link.fileno(), True)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the program
    os.execvp(words.command[0], words.command)


if __name__ == "__main__":
    main()
