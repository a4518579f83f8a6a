# SPDX-License-Identifier: Apache-2.0
"""Packages of a suite: fetched once, by their names and no others."""

import json
from pathlib import Path

import pytest

from powercut.model.errors import HostError, UsageError
from powercut_extras.suites import apt, packages, unpacked
from powercut_extras.suites.apt import SuiteApt

OFFERED = {
    "?essential": ("libc6_2.36-9_amd64.deb",),
    "python3": ("libc6_2.36-9_amd64.deb", "python3_3.11.2-1+b1_amd64.deb"),
    "postgresql": ("postgresql_15%2b248_all.deb",),
    "awk": ("mawk_1.3_amd64.deb",),  # provided, by a package of another name
}


class Apt:
    """What apt-get does with a suite's archive, at the one door by which it is called."""

    def __init__(self, monkeypatch, folder: Path) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.downloaded: list[str] = []
        self._archives = folder / "suites/trixie/apt/archives"
        monkeypatch.setattr(unpacked, "CACHE", folder)
        monkeypatch.setattr(SuiteApt, "prepare", lambda *_, **__: None)
        monkeypatch.setattr(apt, "run_tool", self)

    def __call__(self, argv: list[str], **_: object) -> str:
        self.calls.append(tuple(argv))
        words = argv[argv.index("--") + 1 :]
        names = dict.fromkeys(name for word in words for name in OFFERED[word])
        if "--print-uris" in argv:
            return "".join(f"'http://mirror/{name}' {name} 1 SHA256:0\n" for name in names)
        for name in names:
            if not (self._archives / name).exists():
                self.downloaded.append(name)
                (self._archives / name).write_text(name)
        return ""


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    return Apt(monkeypatch, tmp_path)


def get(tmp_path: Path, *names: str) -> list[str]:
    found = packages.suite_packages("trixie", names, tmp_path)
    assert all(path.read_text() == path.name for path in found)
    return [path.name for path in found]


def test_a_list_is_fetched_once_and_files_are_shared(fetched, tmp_path):
    assert get(tmp_path, "python3") == ["libc6_2.36-9_amd64.deb", "python3_3.11.2-1+b1_amd64.deb"]
    calls = len(fetched.calls)
    assert get(tmp_path, "python3", "python3") == get(tmp_path, "python3")
    assert len(fetched.calls) == calls  # the list that is there needs no apt
    assert get(tmp_path, "python3", "postgresql")[-1] == "python3_3.11.2-1+b1_amd64.deb"
    assert len(fetched.downloaded) == len(set(fetched.downloaded)) == 3
    (tmp_path / "roots/packages/trixie/python3_3.11.2-1+b1_amd64.deb").unlink()
    assert len(get(tmp_path, "python3")) == 2  # a file that went is fetched again


def test_names_are_words_for_apt_and_never_options(fetched, tmp_path):
    get(tmp_path, "python3")
    for call in fetched.calls:
        assert call[call.index("--") + 1 :] == ("?essential", "python3")


def test_what_apt_would_take_for_another_name_is_refused(fetched, tmp_path):
    with pytest.raises(HostError, match="trixie has no package of the name awk"):
        get(tmp_path, "awk")
    assert fetched.downloaded == []


def test_a_suite_that_is_none_is_refused(fetched, tmp_path):
    with pytest.raises(UsageError, match="no Debian suite"):
        packages.suite_packages("../x", ["python3"], tmp_path)
    assert fetched.calls == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": []}', '{"files": [5]}'])
def test_a_damaged_list_is_fetched_again(fetched, tmp_path, text):
    get(tmp_path, "python3")
    (about,) = (tmp_path / "roots/packages/trixie").glob("*.json")
    about.write_text(text)
    assert len(get(tmp_path, "python3")) == 2
    assert json.loads(about.read_text())["asked"] == ["python3"]


def test_a_list_names_no_file_elsewhere(fetched, tmp_path):
    get(tmp_path, "python3")
    (about,) = (tmp_path / "roots/packages/trixie").glob("*.json")
    (tmp_path / "secret").write_text("secret")
    about.write_text(json.dumps({"files": ["../../../secret"]}))
    assert "secret" not in get(tmp_path, "python3")
