# SPDX-License-Identifier: Apache-2.0
"""apt for a Debian suite that is not the host's, without root and without touching the host.

Everything that apt keeps (lists, downloads, the state of what is installed: nothing) lies in a
folder of its own (apt.conf(5): Dir::State, Dir::Cache, Dir::Etc).  The mirror, its key and how
to reach it are those of the host's own configuration.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.machine.tool import run_tool
from powercut.model.errors import HostError

_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LISTS_LAST_S: Final = 6 * 3600.0
"""For how long package lists are taken for current: files that they name are on the mirrors."""

_STABLE: Final = ("bookworm", "trixie")
"""Suites that have updates and security updates beside them."""

_FIELDS: Final = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
_NO_MIRROR: Final = (
    "a suite is fetched from the Debian mirror in /etc/apt: add one, apt-get update; or from "
    "Debian's own: apt-get install debian-archive-keyring"
)
_REMEDY: Final = "it needs the network once; is the mirror in /etc/apt reachable?"
_OLD_MIRROR: Final = (
    "if the mirror is old on purpose, write 'Acquire::Check-Valid-Until \"false\";' to "
    "/etc/apt/apt.conf.d/99-old-mirror"
)


@dataclass(frozen=True)
class Mirrors:
    """Where the host gets its Debian packages from; `security` is empty if it gets none there."""

    main: str
    security: str = ""


_DEBIAN: Final = Mirrors("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")


def parse_mirrors(targets: str) -> Mirrors:
    """The mirrors in what `apt-get indextargets` says, a line `origin|label|URI` each.

    Raises HostError if there is no Debian among them.
    """
    mirrors: dict[str, str] = {}
    for line in targets.splitlines():
        origin, label, uri = [*line.split("|"), "", ""][:3]
        if origin == "Debian" and uri:
            mirrors.setdefault(label, uri)
    if "Debian" not in mirrors:
        raise HostError("this host's apt knows no Debian mirror", hint=_NO_MIRROR)
    return Mirrors(mirrors["Debian"], mirrors.get("Debian-Security", ""))


def has_debian_key() -> bool:
    """Whether Debian's packages can be trusted here; `/etc/apt` need not name a mirror then."""
    return _KEYRING.exists()


def host_mirrors(*, deadline: float) -> Mirrors:
    """The mirrors that this host uses; Debian's own if it has none, and has Debian's key.

    Raises HostError if it has neither.
    """
    argv = ["apt-get", "indextargets", "--format", _FIELDS, "Created-By: Packages"]
    try:
        return parse_mirrors(run_tool(argv, deadline=deadline, hint=_NO_MIRROR))
    except HostError:
        if not has_debian_key():
            raise
        return _DEBIAN


def source_lines(suite: str, mirrors: Mirrors, *, keyring: Path = _KEYRING) -> tuple[str, ...]:
    """What sources.list(5) has to say for `suite`."""
    options = "arch=amd64" + (f" signed-by={keyring}" if keyring.exists() else "")
    base = suite.removesuffix("-backports")
    wanted = [(mirrors.main, base)]
    if suite != base:
        wanted.append((mirrors.main, suite))
    if base in _STABLE:
        wanted.append((mirrors.main, f"{base}-updates"))
        if mirrors.security:
            wanted.append((mirrors.security, f"{base}-security"))
    return tuple(f"deb [{options}] {uri} {name} main" for uri, name in wanted)


def configuration(folder: Path, suite: str) -> str:
    """apt's settings for `suite`, all of whose files are in `folder` (apt.conf(5)).

    Read after the host's own settings, of which those about proxies and the like stay.  Hooks
    of the host's must not run: that of Docker's images deletes the host's downloads.
    """
    hooks: tuple[str, ...] = (
        "APT::Update::Pre-Invoke",
        "APT::Update::Post-Invoke",
        "DPkg::Pre-Invoke",
    )
    hooks += ("APT::Update::Post-Invoke-Success", "DPkg::Post-Invoke", "DPkg::Pre-Install-Pkgs")
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Cache::archives": folder / "archives",
        "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": folder / "none",
        "Dir::Etc::Preferences": folder / "none/preferences",
        "Dir::Etc::PreferencesParts": folder / "none",
        "APT::Architecture": "amd64",
        "APT::Default-Release": suite if suite.endswith("-backports") else "",
        "APT::Install-Recommends": "false",
        "APT::Install-Suggests": "false",
        "APT::Sandbox::User": "root",  # nobody to change to: the folder is this user's
        "APT::Update::Error-Mode": "any",  # a list that cannot be had is an error
        "APT::Keep-Downloaded-Packages": "true",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "true",
        "Acquire::Retries": "3",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb::CNF::DefaultEnabled": "false",
    }
    cleared = [f"#clear {name};" for name in (*hooks, "APT::Architectures")]
    lines = [f'{name} "{value}";' for name, value in settings.items()]
    return "\n".join([*cleared, *lines, 'APT::Architectures { "amd64"; };', ""])


@dataclass(frozen=True)
class SuiteApt:
    """apt for one suite; all that it keeps is below `folder`.  One process at a time."""

    suite: str
    folder: Path

    @property
    def options(self) -> tuple[str, ...]:
        """What makes any of apt's commands speak of the suite."""
        return ("-c", str(self.folder / "apt.conf"))

    def prepare(self, *, deadline: float) -> None:
        """Fetches the suite's package lists if there are none, or old ones.  Raises HostError."""
        stamp = self.folder / "fetched"
        try:
            if time.time() - stamp.stat().st_mtime < _LISTS_LAST_S:
                return
        except OSError:
            pass
        for name in ("state", "lists/partial", "cache", "archives/partial", "none"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        lines = source_lines(self.suite, host_mirrors(deadline=deadline))
        (self.folder / "sources.list").write_text("\n".join(lines) + "\n")
        (self.folder / "apt.conf").write_text(configuration(self.folder, self.suite))
        try:
            self._run("update", deadline=deadline)
        except HostError as error:
            raise refused_lists(self.suite, error) from error
        stamp.touch()

    def download_closure(self, packages: Sequence[str], *, deadline: float) -> tuple[Path, ...]:
        """Downloads `packages` and everything that they depend on; goes on where it was ended.

        Each is a name, or one of apt's patterns (`?essential`).  apt checks signatures and
        hashes.  Raises HostError, also for a name that no package has: apt would take it for a
        regular expression, or for what provides it.
        """
        self.prepare(deadline=deadline)
        verb = ("install", "-y", "--download-only", "--", *packages)
        nowhere = f"Dir::Cache::archives={self.folder / 'none'}"  # it names only what it lacks
        uris = self._run("-o", nowhere, "--print-uris", *verb, deadline=deadline)
        names = re.findall(r"^'[^']*' (\S+\.deb) ", uris, re.MULTILINE)
        there = {name.partition("_")[0] for name in names}
        for package in packages:
            if not package.startswith("?") and package not in there:
                raise HostError(
                    f"{self.suite} has no package of the name {package}",
                    hint=f"look at https://packages.debian.org/{self.suite}/",
                )
        self._run(*verb, deadline=deadline)
        archives = tuple(self.folder / "archives" / name for name in names)
        lost = [path.name for path in archives if not path.exists()]
        if lost or not archives:
            raise HostError(
                f"apt did not download {', '.join(lost) or ', '.join(packages)} of {self.suite}",
                hint=_REMEDY,
            )
        return archives

    def _run(self, *argv: str, deadline: float) -> str:
        return run_tool(
            ["apt-get", "-q", *self.options, *argv],
            deadline=deadline,
            hint=f"{_REMEDY}; rm -r {self.folder} begins anew",
        )


def refused_lists(suite: str, error: HostError) -> HostError:
    """`error` of `apt-get update`, told for a person where apt refuses lists for their dates.

    apt takes no list whose time is over (Check-Valid-Until in apt.conf(5)): an old one hides
    security updates.  The check stays on; whoever knows that a mirror lags, or is a snapshot, may
    say so to apt, whose settings on this host hold here as well.
    """
    remedy = "look at `date`; name another mirror in /etc/apt and run apt-get update, or take "
    remedy += "another suite (bookworm, bookworm-backports, trixie, sid)"
    if re.search(r"Release file for \S+ is expired", str(error)):
        what = (
            "have expired: the mirror is no longer kept up to date, or this host's clock is ahead"
        )
        remedy += f"; {_OLD_MIRROR}"
    elif re.search(r"Release file for \S+ is not valid yet", str(error)):
        what = "are not valid yet: this host's clock is behind"
    else:
        return error
    return HostError(
        f"the package lists of {suite} {what}\n{error}",
        hint=remedy,
    )
