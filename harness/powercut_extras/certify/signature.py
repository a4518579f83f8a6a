# SPDX-License-Identifier: Apache-2.0
"""Whether a certificate is signed, and by which key: what a page may say of it.

Nothing is verified here: a page cannot vouch for itself.  `powercut verify`
does.  The format is OpenSSH's PROTOCOL.sshsig: an armoured blob of the magic "SSHSIG", a
version, and strings with their length before them: public key, namespace, and so on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.named_path import openable
from powercut_extras.certify.order import SIGNATURE

_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"


@dataclass(frozen=True)
class Signature:
    """The file with the signature, and what it says of its key.

    `fingerprint` is the key's as ssh-keygen -l prints it; `trouble` why nothing can be said.
    """

    file: str
    fingerprint: str = ""
    key_type: str = ""
    namespace: str = ""
    trouble: str = ""


def read_signature(directory: Path) -> Signature | None:
    """The signature that lies beside the certificate in `directory`; None if there is none."""
    path = directory / SIGNATURE
    try:
        text = openable(path).read_text(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        return Signature(path.name, trouble=str(error.strerror))
    try:
        key, namespace = _parse(text)
        key_type = _string(key, 0)[0].decode("ascii", "replace")
    except (ValueError, struct.error, binascii.Error):
        return Signature(path.name, trouble="it is no OpenSSH signature")
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return Signature(path.name, f"SHA256:{digest}", key_type, namespace.decode("utf-8", "replace"))


def _parse(text: str) -> tuple[bytes, bytes]:
    """The public key and the namespace."""
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("no armour")
    blob = base64.b64decode("".join(text[begin + len(_BEGIN) : end].split()), validate=True)
    if not blob.startswith(_MAGIC):
        raise ValueError("no magic")
    key, at = _string(blob, len(_MAGIC) + 4)
    namespace, _ = _string(blob, at)
    return key, namespace


def _string(blob: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", blob, at)
    at += 4
    if at + length > len(blob):
        raise ValueError("cut off")
    return blob[at : at + length], at + length
