# SPDX-License-Identifier: Apache-2.0
"""Signs certificates, and checks signatures, with ssh-keygen(1).

The format is OpenSSH's (PROTOCOL.sshsig in its source): an ASCII-armoured signature beside the
file, in a namespace, so that a signature made for something else does not fit.  Whom to
trust is said in an allowed-signers file (ssh-keygen(1), ALLOWED SIGNERS).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError, UsageError

NAMESPACE: Final = "powercut-certificate"
_TIMEOUT_S: Final = 60.0
_BY: Final = re.compile(r"Good .* signature.* with (\S+ key \S+)")


@dataclass(frozen=True)
class Signature:
    """What a signature is worth."""

    good: bool
    """Whether it fits the file, and its signer is trusted where trusted signers are named."""

    trusted: bool
    """Whether the signer is among the trusted ones."""

    says: str
    """In a sentence."""


def sign(file: Path, key: Path, *, timeout_s: float = _TIMEOUT_S) -> Path:
    """Signs `file` with the private key in `key`; returns the signature's file, beside it.

    Raises UsageError if the key cannot be used, HostError if ssh-keygen is not there.
    """
    if not key.is_file():
        raise UsageError(f"{key}: there is no such key", hint="ssh-keygen -t ed25519 makes one")
    signature = file.with_name(file.name + ".sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask
    done = _run(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(file)], timeout_s)
    if done.returncode or not signature.is_file():
        raise UsageError(
            f"{key}: ssh-keygen does not sign with it: {_last(done)}",
            hint="a key with a passphrase needs an agent: ssh-add it, and give its .pub file",
        )
    return signature


def check_signature(
    file: Path, signature: Path, allowed_signers: Path | None, *, timeout_s: float = _TIMEOUT_S
) -> Signature:
    """Whether `signature` fits `file`, and whom it is by.

    Raises UsageError for an allowed-signers file that is not there, HostError if ssh-keygen is
    not.
    """
    data = file.read_bytes()
    common = ["-n", NAMESPACE, "-s", str(signature)]
    if allowed_signers is None:
        done = _run(["-Y", "check-novalidate", *common], timeout_s, data)
        if done.returncode:
            return Signature(False, False, f"{signature}: does not fit {file.name}: {_last(done)}")
        by = _BY.search(done.stdout + done.stderr)
        return Signature(True, False, f"Its signature fits: {by[1] if by else 'an unknown key'}.")
    if not allowed_signers.is_file():
        raise UsageError(
            f"{allowed_signers}: there is no such file",
            hint="one line each: NAME KEY-TYPE KEY, as ssh-keygen(1) has it",
        )
    trust = ["-f", str(allowed_signers)]
    principals = _run(["-Y", "find-principals", *trust, "-s", str(signature)], timeout_s)
    names = principals.stdout.split()
    if principals.returncode or not names:
        return Signature(
            False, False, f"{signature}: its key belongs to no signer in {allowed_signers}"
        )
    done = _run(["-Y", "verify", *trust, "-I", names[0], *common], timeout_s, data)
    if done.returncode:
        return Signature(False, False, f"{signature}: does not fit {file.name}: {_last(done)}")
    return Signature(True, True, f"Signed by {names[0]}.")


def _run(
    arguments: list[str], timeout_s: float, data: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise HostError("ssh-keygen is not installed", hint="apt-get install openssh-client")
    try:
        done = subprocess.run(
            [program, *arguments],
            input=data or b"",
            capture_output=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,  # no terminal: it must not ask for a passphrase
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"ssh-keygen did not answer within {timeout_s:.0f} s") from error
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
