# SPDX-License-Identifier: Apache-2.0
"""Makes hosts ready: this powercut, in an environment of its own, and the guest that it boots.

1. The wheels of this powercut (powercut.cluster.wheels) that are not there yet are brought, and
   their digests are compared there.
2. An environment is made with them: pip runs out of its own wheel and asks no index.  It is
   named by the digest of all wheels, so what is there already is not made again, and another
   version leaves it alone.
3. powercut's files there must have the digest of those here.
4. The guest images of this host are brought: all hosts boot one kernel.
5. `powercut doctor` must miss nothing there that runs need.  Debian packages are installed if
   that was allowed.

Everything lies in the host's `folder`; `clean` removes it.
"""

from __future__ import annotations

import hashlib
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.cluster.facts import (
    CURRENT,
    HostReport,
    RemoteOf,
    at,
    lacks_of,
    on_each,
    read_facts,
    refusal_of,
    remote_of,
)
from powercut.cluster.hosts_file import HostSettings
from powercut.cluster.wheels import Wheelhouse
from powercut.machine.guest.image import current_guest_image
from powercut.machine.remote import Done, Remote, last_line
from powercut.model.errors import HostError
from powercut.paths import BUILD

_SHORT_S: Final = 60.0
_BRING_S: Final = 1800.0
_INSTALL_S: Final = 1800.0
_AT_ONCE: Final = 8
_FLAVOURS: Final = ("cloud", "full")

_ENVIRONMENT: Final = """\
cd && cd {folder} || exit 1
exec 9>lock && flock 9 || exit 1
[ -e versions/{version}/ready ] && exit 0
rm -rf versions/{version} && mkdir -p versions && \
{python} -m venv --without-pip versions/{version}/venv && \
versions/{version}/venv/bin/python wheels/{installer}/pip install -q --no-index --no-deps \
--no-cache-dir --disable-pip-version-check --root-user-action=ignore {wheels} && \
: >versions/{version}/ready
"""
_MARK: Final = ".powercut-cluster"
_NOT_OURS: Final = "holds files that are not powercut's: give another folder"
_OURS: Final = f"""\
cd && mkdir -p {{folder}} && cd {{folder}} || exit 1
[ -e {_MARK} ] || [ -z "$(ls -A)" ] || {{{{ echo "{_NOT_OURS}" >&2; exit 1; }}}}
: >>{_MARK}
"""
_CLEAN: Final = f"""\
cd && [ -e {{folder}} ] || exit 0
[ -e {{folder}}/{_MARK} ] || {{{{ echo "{_NOT_OURS}" >&2; exit 1; }}}}
rm -rf -- {{folder}}
"""
_CODE: Final = "from powercut.cluster.wheels import installed_code; print(installed_code())"
_KEEP: Final = (
    "from powercut.machine.guest.image import keep_guest_image as keep; keep('cloud'); keep('full')"
)


def prepare(
    hosts: Sequence[HostSettings],
    house: Wheelhouse,
    *,
    install: bool = False,
    remote_of: RemoteOf = remote_of,
) -> tuple[HostReport, ...]:
    """Makes all hosts ready, several at a time; what is wrong with one is in its report."""

    def make(remote: Remote, host: HostSettings) -> HostReport:
        return prepare_host(remote, host, house, install=install)

    return on_each(hosts, remote_of, make, at_once=_AT_ONCE)


def prepare_host(
    remote: Remote, host: HostSettings, house: Wheelhouse, *, install: bool = False
) -> HostReport:
    """Makes one ready.  Raises HostError for what is wrong with it."""
    facts = read_facts(remote, host)
    problem, hint = refusal_of(host, facts)
    if problem:
        return HostReport(host.name, facts, problem, hint)
    ours = _OURS.format(folder=shlex.quote(host.folder))
    _done(host, remote.run(ours, timeout_s=_SHORT_S), f"{host.folder} cannot be used")
    _bring_wheels(remote, host, house)
    _make_environment(remote, host, house)
    _bring_guests(remote, host, house)
    _run(remote, host, f"printf %s {house.digest} >{CURRENT}", "cannot be written to")
    lacks = lacks_of(remote, host, house.digest)
    if lacks and install:
        _install(remote, host, house)
        lacks = lacks_of(remote, host, house.digest)
    return HostReport(
        host.name,
        replace(facts, version=house.digest),
        "its doctor misses what runs need" if lacks else "",
        "powercut doctor hosts prepare --install installs the Debian packages" if lacks else "",
        lacks,
    )


def clean(hosts: Sequence[HostSettings], remote_of: RemoteOf = remote_of) -> tuple[HostReport, ...]:
    """Removes everything of powercut's on the hosts, recordings included."""

    def remove(remote: Remote, host: HostSettings) -> HostReport:
        script = _CLEAN.format(folder=shlex.quote(host.folder))
        _done(host, remote.run(script, timeout_s=_BRING_S), "cannot be removed")
        return HostReport(host.name)

    return on_each(hosts, remote_of, remove, at_once=_AT_ONCE)


def _run(
    remote: Remote, host: HostSettings, script: str, why: str, timeout_s: float = _SHORT_S
) -> str:
    """Runs a script in the host's folder, which is there.  Raises HostError."""
    inside = f"cd && mkdir -p {shlex.quote(host.folder)} && cd {shlex.quote(host.folder)} && "
    return _done(host, remote.run(f"{inside}{script}", timeout_s=timeout_s), why)


def _done(host: HostSettings, done: Done, why: str) -> str:
    if done.status:
        raise HostError(
            f"{host.name}: {why}: {last_line(done.printed)}",
            hint="is there room, and may this user write there?",
        )
    return done.text


def _bring_wheels(remote: Remote, host: HostSettings, house: Wheelhouse) -> None:
    there = _run(
        remote, host, "mkdir -p wheels && cd wheels && sha256sum -- *.whl; :", "cannot be listed"
    )
    known = {tuple(line.split("  ", 1)) for line in there.splitlines()}
    missing = {
        name: house.folder / name
        for name, sha256 in house.sha256.items()
        if (sha256, name) not in known
    }
    if missing:
        folder = shlex.quote(host.folder)
        script = f"cd && cd {folder}/wheels && tar -xf - --no-same-owner"
        done = remote.run(script, stdin=tar_of(missing), timeout_s=_BRING_S)
        _done(host, done, "powercut could not be brought")
    sums = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(house.sha256.items()))
    script = f"cd && cd {shlex.quote(host.folder)}/wheels && sha256sum --quiet -c -"
    done = remote.run(script, stdin=[sums.encode()], timeout_s=_SHORT_S)
    _done(host, done, "what was brought has other bytes there")


def _make_environment(remote: Remote, host: HostSettings, house: Wheelhouse) -> None:
    wheels = " ".join(
        f"wheels/{shlex.quote(name)}" for name in sorted(house.sha256) if name != house.installer
    )
    script = _ENVIRONMENT.format(
        folder=shlex.quote(host.folder),
        version=house.digest,
        python=shlex.quote(host.python),
        installer=shlex.quote(house.installer),
        wheels=wheels,
    )
    done = remote.run(script, timeout_s=_INSTALL_S)
    if done.status and "not a supported wheel" in done.printed:
        raise HostError(
            f"{host.name}: another Python, C library or processor architecture than here: "
            f"{done.printed.strip().splitlines()[-1]}",
            hint="`python` of the hosts file names another interpreter; or call powercut on a "
            "host like it",
        )
    _done(host, done, "no environment could be made")
    code = remote.run(at(host, house.digest, "python", "-c", _CODE), timeout_s=_SHORT_S)
    if code.text != house.code:
        raise HostError(
            f"{host.name}: powercut there is not what was brought: its files have digest "
            f"{code.text[:16] or 'none'}, and {house.code[:16]} here: "
            f"{code.printed.strip()[-200:]}",
            hint="powercut doctor hosts clean, then prepare it again",
        )


def tar_of(members: Mapping[str, Path]) -> Iterator[bytes]:
    """A tar with these files, by their names in it.  Raises OSError."""
    for name, source in members.items():
        info = tarfile.TarInfo(name)
        status = source.stat()
        info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        yield info.tobuf(tarfile.PAX_FORMAT)
        with source.open("rb") as file:
            while data := file.read(1 << 18):
                yield data
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def guests() -> tuple[dict[str, Path], str]:
    """The guest images of this host that are up to date, by their place on another; and the name
    of the file there that says that they were brought.
    """
    members: dict[str, Path] = {}
    for flavour in _FLAVOURS:
        image = current_guest_image(flavour)
        if image is not None:
            files = (*sorted(image.kernel.parent.iterdir()), BUILD / "guest" / f"{flavour}.json")
            members |= {f"build/{path.relative_to(BUILD).as_posix()}": path for path in files}
    names = "\n".join(sorted(members))
    return members, f"build/brought-{hashlib.sha256(names.encode()).hexdigest()[:16]}"


def _bring_guests(remote: Remote, host: HostSettings, house: Wheelhouse) -> None:
    """A host makes other images as runs need them."""
    members, mark = guests()
    if not members:
        return
    if _run(remote, host, f"[ ! -e {mark} ] || echo there", "cannot be read") != "there":
        script = f"cd && cd {shlex.quote(host.folder)} && tar -xf - --no-same-owner && : >{mark}"
        done = remote.run(script, stdin=tar_of(members), timeout_s=_BRING_S)
        _done(host, done, "the guest image could not be brought")
    done = remote.run(at(host, house.digest, "python", "-c", _KEEP), timeout_s=_SHORT_S)
    _done(host, done, "the guest image cannot be used")


def _install(remote: Remote, host: HostSettings, house: Wheelhouse) -> None:
    """Installs the Debian packages that powercut runs, as root or with sudo."""
    script = (
        'as=; [ "$(id -u)" -eq 0 ] || as="sudo -n"; '
        "list=$(powercut_doctor) && $as env DEBIAN_FRONTEND=noninteractive apt-get -q -y "
        "-o DPkg::Lock::Timeout=300 install --no-install-recommends $list"
    )
    ask = at(host, house.digest, "powercut", "doctor", "--packages")
    script = f"powercut_doctor() {{ ( {ask} ); }}; {script}"
    done = remote.run(script, timeout_s=_INSTALL_S)
    _done(host, done, "its packages could not be installed")
