# SPDX-License-Identifier: Apache-2.0
"""The environment checker: does the guest see what the configuration promises?

A preset that did not take effect (a disk that says "write through" where "write back"
was asked for) means that another configuration was tested: NOT_AS_CONFIGURED, INCONCLUSIVE.  A fact
that the guest did not report is not a fact.
"""

from __future__ import annotations

from collections.abc import Mapping

from powercut.model.verdict import Finding, FindingKind, Verdict


def check_environment(facts: Mapping[str, str], promised: Mapping[str, str]) -> list[Finding]:
    """One finding for each promised fact (`write_cache`, `fua`, ...) that is not as promised."""
    findings = []
    for name, expected in promised.items():
        seen = facts.get(name)
        if seen is not None and seen.strip() == expected:
            continue
        what = "did not say" if seen is None else f"sees {seen.strip()!r}"
        findings.append(
            Finding(
                FindingKind.NOT_AS_CONFIGURED,
                Verdict.INCONCLUSIVE,
                f"{name}: {expected!r} was promised, the guest {what}",
                detail={"fact": name, "promised": expected, "seen": seen},
            )
        )
    return findings
