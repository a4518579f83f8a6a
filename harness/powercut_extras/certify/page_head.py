# SPDX-License-Identifier: Apache-2.0
"""The head of a certificate: who hands it over, what of which version was tested, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from powercut.model.versions import TESTED
from powercut.report import words
from powercut_extras.certify.certificate import Certificate

_NAMED_MAX: Final = 4
"""Versions of one role that are named; the table of versions has all."""


@dataclass(frozen=True)
class Head:
    """What stands above the answer."""

    heading: str
    subtitle: str
    issuer: str
    contact: str
    logo: str


def head_of(certificate: Certificate) -> Head:
    """The head of `certificate`."""
    issuer = certificate.issuer
    return Head(
        heading=certificate.heading or certificate.title,
        subtitle=", ".join(_subtitle(certificate)),
        issuer=issuer.name if issuer is not None else "",
        contact=issuer.contact if issuer is not None else "",
        logo=issuer.logo if issuer is not None else "",
    )


def _subtitle(certificate: Certificate) -> Iterator[str]:
    if certificate.heading:
        yield certificate.title
    for role in TESTED:
        found = (part for part in certificate.components if part.role == role)
        named = list(dict.fromkeys(f"{part.name} {part.version}" for part in found))
        yield from named[:_NAMED_MAX]
        if len(named) > _NAMED_MAX:
            yield words.count(len(named) - _NAMED_MAX, "more version") + f" of the {role}"
    yield f"powercut {certificate.powercut}"
    yield certificate.started[:10]
