# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests.

What a test needs of the host is a marker, and support/host_needs.py has one row for each.  Where CI
is set in the environment, a test that skips for any other reason has failed: a machine that cannot
run it proves nothing.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from datetime import date
from pathlib import Path

import host_needs
import own_libvirt
import pytest
import unsteady
import wal_driver
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from xdist.scheduler import LoadScopeScheduling

from powercut.paths import BUILD

# In the current folder it would be in a checkout that may be another user's.
set_hypothesis_home_dir(BUILD / "hypothesis")

# What an example may take is the host's affair; in CI Hypothesis has a profile of its own.
settings.register_profile(
    "any-host",
    parent=settings(),
    deadline=None,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("any-host")

# Recordings that tests make are not marked with the key of whoever runs them.
os.environ["XDG_STATE_HOME"] = str(BUILD / "test-state")

# A shell's background job ignores Ctrl-C, what nohup starts a hangup: tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TESTS = Path(__file__).parent

BY_NAME = ("campaign", "nightly")
"""Markers of tests that run only where `-m` names them."""

TOGETHER = "vm/recording"
"""A folder whose files use the same recordings: one process makes them, once."""


def group_of(path: Path) -> str:
    """What runs in one process: a file, or a folder with what its files share."""
    return TOGETHER if path.is_relative_to(TOGETHER) else str(path)


def pytest_configure(config: pytest.Config) -> None:
    """Each need of the host is a marker."""
    for name, need in host_needs.NEEDS.items():
        config.addinivalue_line("markers", f"{name}: needs {need.what}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What this host lacked, and what has been unsteady for long; how many tests, for .ci/run."""
    reports = [
        one for kind in ("passed", "failed", "skipped") for one in terminalreporter.getreports(kind)
    ]
    if cache := getattr(config, "cache", None):  # none with -p no:cacheprovider
        cache.set("powercut/tests", len(reports))
    for title, lines in (
        ("what this host lacks", host_needs.summary(reports)),
        ("unsteady for more than two weeks, to be mended", unsteady.old(date.today())),
    ):
        if lines:
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns and nightly tests run by the name of their marker only.

    What takes longest begins first: else one process would end with it while the other has nothing.
    """
    items.sort(key=lambda item: TESTS / "vm" not in item.path.parents)
    by_name = [name for name in BY_NAME if name not in (config.option.markexpr or "")]
    left_out, kept = [], []
    for item in items:
        (left_out if any(map(item.get_closest_marker, by_name)) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test needs of the host comes before whatever else may keep it from running."""
    host_needs.provide(item)


class _ByGroup(LoadScopeScheduling):
    """A file stays in one of the processes, with what it has booted."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(Path(nodeid.partition("::")[0]).relative_to(TESTS.name))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _ByGroup | None:
    """Not xdist's own groups: pytest 9.2 drops the suffix of an id by which it knows them, and each
    module's fixtures were made in both processes.  But for `--dist load`, one test at a time."""
    return None if config.getoption("dist") == "load" else _ByGroup(config, log)


@pytest.fixture(scope="session")
def wal(tmp_path_factory: pytest.TempPathFactory) -> wal_driver.Wal:
    """The `wal` program, built once a session."""
    return wal_driver.build(tmp_path_factory.mktemp("wal-build"))


@pytest.fixture
def on_path() -> Iterator[Path]:
    """A folder that PATH can name: that ends a name at a colon, which TMPDIR may have."""
    with tempfile.TemporaryDirectory(prefix="pc-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def libvirt_uri() -> Iterator[str]:
    """A connection to a libvirtd that nobody else uses."""
    host_needs.require("mounts")
    if why := own_libvirt.absent():
        pytest.skip(why)
    with own_libvirt.own_libvirtd() as uri:
        yield uri


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not os.environ.get("CI") or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if reason.removeprefix("Skipped: ").startswith(host_needs.LACKS):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped in CI, where everything must run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a skip is a failure."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In CI, a module that skips itself is a failure, too."""
    report = yield
    _refuse_skip(report)
    return report
