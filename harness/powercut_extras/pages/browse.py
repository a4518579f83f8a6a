# SPDX-License-Identifier: Apache-2.0
"""All results below a folder as pages for a browser on this host; nothing is written.

An index lists runs, certificates and captured folders, the newest first.  Their pages are made of
what is stored when they are asked for.  What else lies there (JSON, JUnit) is sent as
it is.  A recording's page has a time line, for which it asks here for more.  Recordings may come
from strangers, so a page may run the scripts that powercut put in (each is named by its hash) and
no other, and may load nothing from elsewhere.  Only names of this host are answered: another
site's page cannot ask under its own name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from powercut.model.errors import HostError, PowercutError
from powercut.model.verdict import Verdict
from powercut.paths import from_here
from powercut.report import words
from powercut.report.certificates import (
    CERTIFICATE,
    CERTIFICATE_ORDER,
    CERTIFICATE_PAGE,
    Night,
    certificates,
)
from powercut.report.page.pages import GLOSSARY, page
from powercut.report.page.run import html_report
from powercut.scenario.program_text import title_of
from powercut.store.folder import RECORD, CaptureDir
from powercut.store.layout import ResultDir
from powercut.store.progress import read_progress
from powercut.store.trial_dir import TrialDir
from powercut_extras.pages.examined import Unchanged
from powercut_extras.pages.history_page import history_html
from powercut_extras.pages.history_reader import (
    capture_time,
    certificates_here,
    is_part_of_run,
    read_history,
)
from powercut_extras.pages.live import Live, live_of
from powercut_extras.pages.recording import (
    RECORDED,
    Source,
    inside_json,
    recording_html,
    source_at,
    window_json,
)
from powercut_extras.pages.scripts import BROWSE, PICTURES, TIMELINE, policy, script

ADDRESS: Final = "127.0.0.1"
_HISTORY: Final = "history.html"
_RUN: Final = "report.html"
_VERDICT: Final = "verdict.json"
_WINDOW: Final = "window.json"
_STATE: Final = "state.json"
_TEXTS: Final = {
    ".json": "application/json",
    ".xml": "application/xml",
    ".yaml": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-same-origin"
)
"""Of pages without a script.  From another origin its links would go without the cookie."""

_NUMBER_MAX: Final = 18  # digits of an instant


class Answer(NamedTuple):
    """What is sent: its type, its bytes, and what the page may do."""

    kind: str
    body: bytes
    policy: str = _POLICY


@dataclass(frozen=True)
class Known:
    """What was read before, and has not changed since: certificates, recordings."""

    nights: Unchanged[Night] = field(default_factory=Unchanged)
    sources: Unchanged[Source] = field(default_factory=lambda: Unchanged(most=4))


@dataclass(frozen=True)
class Listed:
    """A run, a certificate or a captured folder, as the index has it; without a verdict it has not
    ended, or nothing judged it.
    """

    name: str
    link: str
    started: str = ""
    verdict: Verdict | None = None
    as_expected: bool | None = None
    """None if nothing was expected."""
    said: str = ""
    running: bool = False
    """It has not come to its end: it is running, or was broken off."""

    live: Live | None = None
    """How far it has come, if it says."""


def index_html(root: Path) -> str:
    """The page that leads to all others."""
    return page("browse.html.j2", "powercut_extras.pages").render(
        root=str(root),
        runs=sorted(_runs(root), key=lambda one: one.started, reverse=True),
        certificates=sorted(_certificates(root), key=lambda one: one.started, reverse=True),
        captures=sorted(_captures(root), key=lambda one: one.started, reverse=True),
        history=_HISTORY,
        script=script(BROWSE),
        words=words,
        glossary=GLOSSARY,
    )


def _below(root: Path, name: str) -> Iterator[Path]:
    """Each file called `name` in a run's folder or a certificate's; `latest` is a link to one."""
    for pattern in (f"*/*/{name}", f"certify/*/*/{name}"):
        for path in sorted(root.glob(pattern)):
            if not any(part.is_symlink() for part in (path, *path.parents) if part != root):
                yield path


def _link(root: Path, folder: Path, name: str) -> str:
    return quote(f"{folder.relative_to(root)}/{name}")


def _runs(root: Path) -> Iterator[Listed]:
    for path in _below(root, "scenario.yaml"):
        folder = path.parent
        name = folder.parent.name
        if not (folder / _VERDICT).is_file():
            live = live_of(read_progress(folder), from_here(folder), "run")
            said = _so_far(folder) if live is None else ""
            yield Listed(name, "", folder.name, said=said, running=True, live=live)
            continue
        try:
            run = ResultDir.open(folder).read_verdict()
        except PowercutError as error:
            yield Listed(name, "", folder.name, said=f"not readable: {error}")
            continue
        cells = words.count(len(run.cells), "cell")
        cells += ", and captured files" if run.files else ""
        link = _link(root, folder, _RUN)
        yield Listed(name, link, run.started, run.verdict, run.as_expected, cells)


def _so_far(folder: Path) -> str:
    """How far a run has come that says nothing of it: the power cuts that were judged."""
    found: Counter[str] = Counter()
    newest = 0.0
    for path in folder.glob(f"cells/*/*/{_VERDICT}"):
        try:
            found[TrialDir(path.parent, folder).read_verdict().verdict.name] += 1
            newest = max(newest, path.stat().st_mtime)
        except (PowercutError, OSError):  # it is being written, or removed
            continue
    if not found:
        return "has not come to its end; no power cut is judged yet"
    told = ", ".join(f"{number} {name}" for name, number in sorted(found.items()))
    cuts = words.count(found.total(), "power cut")
    at = datetime.fromtimestamp(newest, UTC).strftime("%H:%M:%S")
    return f"has not come to its end; {cuts} judged so far: {told}; the last at {at} UTC"


def _certificates(root: Path) -> Iterator[Listed]:
    """Those that are drawn up, and those whose runs have not all come to their end."""
    if (made := certificates_here()) is None:
        return
    names = (CERTIFICATE_ORDER, CERTIFICATE)
    for folder in dict.fromkeys(path.parent for name in names for path in _below(root, name)):
        one = made.listed(folder)
        link = _link(root, folder, CERTIFICATE_PAGE) if one.verdict is not None else ""
        live = _live_below(folder) if one.running else None
        said = one.said + ("" if live is None else "; the next one:")
        yield Listed(
            one.name, link, one.started, one.verdict, one.as_expected, said, one.running, live
        )


def _live_below(folder: Path) -> Live | None:
    runs = (folder / "runs").glob("*/2*")
    found = (one for run in runs if (one := read_progress(run)) is not None)
    return live_of(next(found, None), from_here(folder), "certify")


def _captures(root: Path) -> Iterator[Listed]:
    for path in _below(root, RECORD):
        folder = path.parent
        if is_part_of_run(folder):
            continue
        link = _link(root, folder, _RUN)
        try:
            record = CaptureDir(folder).read_record()
            result = CaptureDir(folder).find_result()
        except PowercutError as error:
            yield Listed(folder.name, "", folder.name, said=f"not readable: {error}")
            continue
        name = title_of(record.command)
        if result is None:
            yield Listed(name, link, capture_time(folder), said="not judged yet")
            continue
        looked = result.explored.coverage
        lost = f"a loss in {looked.lossy:,} of {looked.distinct:,} states"
        said = f"{result.acknowledged:,} operations acknowledged; {lost}"
        yield Listed(name, link, capture_time(folder), result.verdict, said=said)


def answer(root: Path, target: str, known: Known | None = None) -> Answer | None:
    """What lies at `target`, a path of a URL; None if there is nothing to show.

    Raises PowercutError if what is stored there cannot be read.
    """
    address = _split(target)
    if address is None:
        return None
    name = unquote(address.path).lstrip("/")
    known = known or Known()
    if not name:
        return Answer(_HTML, index_html(root).encode(), policy(BROWSE, served=True))
    if name == _HISTORY:
        return Answer(
            _HTML, history_html(read_history(root, unchanged=known.nights), root).encode()
        )
    path = Path() if "\0" in name else (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        return None
    if path.name in (_RUN, _WINDOW, _STATE):
        recorded = next((one for one in RECORDED if (path.parent / one).is_file()), None)
        if recorded is not None:
            return _recording(path, recorded, address.query, known)
    return _file(path)


def _split(target: str) -> SplitResult | None:
    """The parts of an address; None if it is none."""
    try:
        return urlsplit(target)
    except ValueError:
        return None


def _recording(path: Path, recorded: str, query: str, known: Known) -> Answer | None:
    """The page of a recording, or a window of its time line."""
    folder = path.parent
    source = known.sources.read(folder / recorded, lambda: source_at(folder))
    if path.name == _RUN:
        html = recording_html(folder, source=source, windows=_WINDOW)
        return Answer(_HTML, html.encode(), policy(TIMELINE, PICTURES, served=True))
    if path.name == _STATE:
        if source.inside is None:
            return None
        asked = parse_qs(query).get("name", [""])[0]
        return Answer(_TEXTS[".json"], json.dumps(inside_json(source.inside, asked)).encode())
    numbers = [_number(parse_qs(query).get(name, [""])[0]) for name in ("begin", "end")]
    begin, end = numbers
    if begin is None or end is None or begin > end:
        return None
    return Answer(_TEXTS[".json"], json.dumps(window_json(source, begin, end)).encode())


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= _NUMBER_MAX
    return int(text) if plain else None


def _file(path: Path) -> Answer | None:
    """What lies at `path`, or is made of what lies beside it."""
    makers: tuple[tuple[str, str, Callable[[Path], str]], ...] = (
        (_RUN, _VERDICT, _run_page),
        (CERTIFICATE_PAGE, CERTIFICATE, _certificate_page),
    )
    for name, needed, made in makers:
        if path.name == name and (path.parent / needed).is_file():
            return Answer(_HTML, made(path.parent).encode())
    if path.suffix in _TEXTS and path.is_file():
        return Answer(_TEXTS[path.suffix], path.read_bytes())
    return None


def _run_page(folder: Path) -> str:
    result = ResultDir.open(folder)
    return html_report(result, result.read_verdict(), linked=True)


def _certificate_page(folder: Path) -> str:
    return certificates().page(folder / CERTIFICATE)


def _has_cookie(header: str, wanted: str) -> bool:
    parts = (part.strip().encode(errors="replace") for part in header.split(";"))
    return any(compare_digest(part, wanted.encode()) for part in parts)


def server(root: Path, port: int, token: str) -> ThreadingHTTPServer:
    """A server of `root` on this host alone; port 0 takes one that is free.  Raises HostError.

    Other users of this host reach the port, too: who asks has the token, first as `?token=`, from
    then on as a cookie.
    """

    known = Known()
    listening: ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        server_version = "powercut"
        sys_version = ""

        def do_GET(self) -> None:
            """Answers with a page, or says why there is none."""
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if host not in (ADDRESS, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN, "only localhost is answered")
                return
            cookie = f"powercut-{listening.server_port}"
            address = _split(self.path) or urlsplit("")
            if compare_digest(address.query.encode(), f"token={token}".encode()):
                self.send_response(HTTPStatus.SEE_OTHER)
                self.send_header("Location", f"/{address.path.lstrip('/')}")
                kept = f"{cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
                self.send_header("Set-Cookie", kept)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if not _has_cookie(self.headers.get("Cookie") or "", f"{cookie}={token}"):
                self.send_error(HTTPStatus.FORBIDDEN, "open the address that powercut serve shows")
                return
            try:
                page = answer(root, self.path, known)
            except (PowercutError, OSError) as error:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "not readable", str(error))
                return
            if page is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send_response(HTTPStatus.OK)
            for header, value in (
                ("Content-Type", page.kind),
                ("Content-Length", str(len(page.body))),
                ("Content-Security-Policy", page.policy),
                ("X-Content-Type-Options", "nosniff"),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the terminal is the person's."""

    try:
        listening = ThreadingHTTPServer((ADDRESS, port), Handler)
    except OSError as error:
        raise HostError(
            f"cannot listen on {ADDRESS}, port {port}: {error.strerror}",
            hint="--port 0 takes one that is free",
        ) from error
    return listening
