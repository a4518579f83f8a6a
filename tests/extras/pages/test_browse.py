# SPDX-License-Identifier: Apache-2.0
"""Results in a browser: read only, on this host alone, and nothing outside of the folder."""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificate_maker import cell_of, certificate_of_cells
from runs_by_hand import make_run

from powercut.model.verdict import Verdict
from powercut.report.page.pages import GLOSSARY
from powercut.store.layout import ResultDir
from powercut_extras.pages.browse import ADDRESS, answer, server
from powercut_extras.pages.examined import Unchanged

TIMEOUT_S = 60
TOKEN = "s3cret-token"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ResultDir:
    return make_run(tmp_path_factory.mktemp("results"))


@pytest.fixture
def root(run: ResultDir) -> Path:
    return run.path.parent.parent


@pytest.fixture
def get(root: Path) -> Iterator:
    with server(root, 0, TOKEN) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()

        def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
            port = listening.server_address[1]
            asking = http.client.HTTPConnection(ADDRESS, port, timeout=TIMEOUT_S)
            headers.setdefault("Cookie", f"a=b; powercut-{port}={TOKEN}")
            asking.request(method, path, headers=headers)
            got = asking.getresponse()
            found = got.status, got.read().decode(), dict(got.getheaders())
            asking.close()
            return found

        try:
            yield ask
        finally:
            listening.shutdown()
            thread.join()


def assert_only_own_script(page: str, headers: dict[str, str]) -> None:
    """The one script that the policy allows is the one on the page, by its hash."""
    (text,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"; script-src 'sha256-{digest}'; " in headers["Content-Security-Policy"]


def test_the_index_leads_to_runs_and_certificates(root, run, get, tmp_path):
    folder = root / "certify/some/20260101T000000Z-1"
    folder.mkdir(parents=True, exist_ok=True)
    certificate = certificate_of_cells([cell_of("a", Verdict.LOSSY)])
    (folder / "certificate.json").write_text(certificate.model_dump_json())
    before = sorted(root.rglob("*"))
    status, index, headers = get("/")
    assert status == 200
    assert_only_own_script(index, headers)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    link = f"by-hand/{run.path.name}/report.html"
    assert f'href="{link}"' in index
    assert index.count("by-hand</b>") == 1, "latest is a link to a run that is listed"
    assert "by-hand: " in get(f"/{link}")[1] or "by-hand" in get(f"/{link}")[1]
    assert "certify/some/20260101T000000Z-1/certificate.html" in index
    page = get("/certify/some/20260101T000000Z-1/certificate.html")[1]
    assert "1 of 1 setting loses acknowledged writes" in page
    assert "History of certificates" in get("/history.html")[1]
    assert '"powercut-verdict/1"' in get(f"/by-hand/{run.path.name}/verdict.json")[1]
    assert sorted(root.rglob("*")) == before, "nothing is written"


def test_the_index_explains_its_words(get):
    index = get("/")[1]
    assert '<a href="#glossary">' in index
    for word, meaning in GLOSSARY:
        assert f"<dt>{word}</dt><dd>{html.escape(meaning)}</dd>" in index.replace("&#39;", "&#x27;")


@pytest.mark.parametrize(
    "path",
    ["/../secret.json", "/by-hand/%2e%2e/%2e%2e/secret.json", "/%2fetc%2fpasswd", "/a%00.json",
     "/by-hand/latest/disk.log", "/by-hand", "//etc/hostname", "/report.html", "/link.json"],
)  # fmt: skip
def test_nothing_else_is_sent(root, get, path):
    (root.parent / "secret.json").write_text("{}")
    link = root / "link.json"
    link.unlink(missing_ok=True)
    link.symlink_to(root.parent / "secret.json")
    assert get(path)[0] == 404


def test_only_names_of_this_host_are_answered(get):
    """Else a page of another site could read results under a name that it points here."""
    assert get("/", Host="evil.example:80")[0] == 403
    assert get("/", "POST")[0] == 501


def test_a_run_that_has_not_ended_is_listed_as_such(root, run, tmp_path):
    other = tmp_path / "by-hand/20260101T000000Z-9"
    other.mkdir(parents=True)
    (other / "scenario.yaml").write_text("powercut: 1\n")
    found = answer(tmp_path, "/")
    assert found.kind.startswith("text/html")
    assert "has not come to its end" in found.body.decode()


def test_damage_is_said_and_hides_nothing_else(tmp_path):
    other = tmp_path / "by-hand/20260101T000000Z-9"
    other.mkdir(parents=True)
    (other / "scenario.yaml").write_text("powercut: 1\n")
    (other / "verdict.json").write_text("{")
    found = answer(tmp_path, "/")
    assert found is not None
    assert "not readable" in found.body.decode()


def test_a_folder_that_has_not_changed_is_read_once(tmp_path):
    now = [0]
    unchanged: Unchanged[str] = Unchanged(lambda: now[0])
    file, beside = tmp_path / "certificate.json", tmp_path / "runs/verdict.json"
    beside.parent.mkdir()
    for path in (file, beside):
        path.write_text("{}")
    read: list[str] = []

    def asked() -> int:
        unchanged.read(file, lambda: read.append("") or "")
        return len(read)

    assert [asked(), asked()] == [1, 2], "it has just changed, and may change again unseen"
    now[0] = beside.stat().st_ctime_ns + 3_000_000_000
    assert [asked(), asked(), asked()] == [3, 3, 3]
    times = beside.stat()
    beside.write_text("[]")
    os.utime(beside, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert asked() == 4, "its size and its date are as before"
    (beside.parent / "new").touch()
    assert asked() == 5


def test_a_change_while_it_is_read_is_not_missed(tmp_path):
    unchanged: Unchanged[str] = Unchanged(lambda: 1 << 62)
    file = tmp_path / "certificate.json"
    file.write_text("{}")

    def reads() -> str:
        said = file.read_text()
        file.write_text("[]")
        return said

    assert unchanged.read(file, reads) == "{}"
    assert unchanged.read(file, file.read_text) == "[]"


def test_another_user_of_the_host_has_no_token(get) -> None:
    """The port is open to all users of the host, the results may not be."""
    for headers in ({"Cookie": ""}, {"Cookie": "powercut-1=x"}, {"Cookie": f"x={TOKEN}; ü=ü"}):
        assert get("/", **headers)[0] == 403
    assert get("/?token=wrong", Cookie="")[0] == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(get) -> None:
    status, _, headers = get(f"//evil.example/?token={TOKEN}", Cookie="")
    assert (status, headers["Location"]) == (303, "/evil.example/")
    status, _, headers = get(f"/?token={TOKEN}", Cookie="")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert cookie.endswith(f"={TOKEN}")
    assert headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict")
    assert get("/", Cookie=cookie)[0] == 200
