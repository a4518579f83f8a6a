# SPDX-License-Identifier: Apache-2.0
"""`powercut listen FOLDER`: lines of a workload that runs anywhere, and its check after a cut."""

from __future__ import annotations

import secrets
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from powercut.cli.options import FILE, WORDS, json_option, seconds_option
from powercut.cli.output import TROUBLE, Speaker, echo, write_json_object
from powercut.model.errors import UsageError

_LOSSY = 1
_POLL_S = 0.5
_NEVER = 2**62
_QUIET_S = 0.2
_DRAIN_S = 10.0


@click.command()
@click.argument("folder", type=FILE)
@json_option("the verdict, with --check")
@click.option(
    "--address",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; port 0 takes a free one. Without --certificate nothing is encrypted: "
    "from another machine use a tunnel of ssh's (ssh -R).",
)
@click.option(
    "--certificate",
    type=FILE,
    help="Speaks TLS alone, with this certificate (PEM); the token is asked for all the same.",
)
@click.option("--key", type=FILE, help="Its private key (PEM), without a passphrase.")
@click.option(
    "--check",
    type=WORDS,
    metavar="COMMAND",
    help="Does not listen: runs COMMAND twice and judges what it says on its standard output.",
)
@seconds_option(
    "--state-timeout", 600.0, "What one run of COMMAND may take, in seconds.", least=0.1, most=86400
)
def listen(
    folder: Path,
    address: str,
    certificate: Path | None,
    key: Path | None,
    check: tuple[str, ...] | None,
    state_timeout: float,
    json_file: Path | None,
) -> int:
    """Listens to a workload that you run anywhere, until you interrupt it.

    The workload connects, says the token, and then lines: `? N` before it tries operation N,
    `+ N` once N is durable. Cut its power, press Ctrl-C here, bring the machine back, then run the
    same command with --check.

    Exit status: 0 heard, or survived; 1 lossy; 3 inconclusive.
    """
    if check is not None:
        return _judge(folder, check, state_timeout, json_file)
    if json_file is not None:
        raise UsageError("--json goes with --check", hint="leave it out")
    if (certificate is None) is not (key is None):
        raise UsageError("--certificate and --key belong together", hint="give both")
    files = None if certificate is None or key is None else (certificate, key)
    return _hear(folder, *_parsed(address), files)


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--address {address}: write HOST:PORT")
    return host.strip("[]"), int(port)


def _hear(folder: Path, host: str, port: int, tls_files: tuple[Path, Path] | None) -> int:
    from powercut.channel.port import GuestFailed
    from powercut.paths import CLIENT_BINARY, EXAMPLES, command
    from powercut_extras.elsewhere.listened import Listened
    from powercut_extras.elsewhere.listening import fingerprint_of, heard_on, listen_tcp, tls_of

    token = secrets.token_hex(16)
    tls = None if tls_files is None else tls_of(*tls_files)
    listened = Listened.make(folder)
    listener = listen_tcp(host, port)
    where = listener.getsockname()
    with (
        heard_on(
            listener, listened.lines, listened.binding, token=token, tls=tls, on_refused=echo
        ) as lines,
        _ctrl_c() as pressed,
    ):
        echo(f"listening on {where[0]} port {where[1]}")
        echo(f"token: {token}")
        if tls_files is not None:
            echo(f"certificate: SHA-256 {fingerprint_of(tls_files[0])}")
        client = EXAMPLES / "powercut_client.py" if tls_files else CLIENT_BINARY
        echo(f"client to copy to the machine: {client}")
        try:
            while not (pressed() or lines.said_end):
                lines.wait_acks(_NEVER, timeout_s=_POLL_S)
            echo("")
            lines.drain(timeout_s=_DRAIN_S, quiet_s=_QUIET_S)
        except GuestFailed:
            echo("the connection has ended")
    promises = listened.promises
    echo(f"{promises.acked} operations acknowledged of {promises.attempted} tried")
    for why in promises.gaps:
        echo(f"  beware: {why}")
    echo(f"after the cut: {command()} listen {shlex.quote(str(folder))} --check COMMAND")
    return 0


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; not an exception, which could come while a lock is taken."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _judge(folder: Path, check: tuple[str, ...], seconds: float, json_file: Path | None) -> int:
    from powercut.model.confidence import percent, upper_bound
    from powercut.model.verdict import Verdict
    from powercut_extras.elsewhere.judge import verdict_of_listened
    from powercut_extras.elsewhere.listened import Listened, run_check

    say = Speaker(json_file)
    if not check:
        raise UsageError("--check: give a command")
    promises = Listened.open(folder).promises
    seen = run_check(check, timeout_s=seconds, used_again=True)
    judgement = verdict_of_listened(promises, seen, run_check(check, timeout_s=seconds))
    say(f"{judgement.verdict.name}: {promises.acked} operations were acknowledged")
    for finding in judgement.findings:
        say(f"  {finding.message}")
    if judgement.verdict is Verdict.SURVIVED:
        bound = percent(upper_bound(0, 1))
        say(
            "  None of them was lost in this cut; by itself this only shows (95 % confidence) "
            f"that fewer than {bound} of such cuts lose data. That the power went is your word, "
            "and nothing shows what the cut takes: run the workload once without its syncs, which "
            "has to be LOSSY."
        )
    told = {
        "verdict": judgement.verdict.name.lower(),
        "acknowledged": promises.acked,
        "findings": [finding.message for finding in judgement.findings],
    }
    write_json_object("listened", told, json_file)
    return {Verdict.SURVIVED: 0, Verdict.LOSSY: _LOSSY}.get(judgement.verdict, TROUBLE)
