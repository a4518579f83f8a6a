# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests.

Where CI is set in the environment, a test that skips has failed: a machine that cannot
run it proves nothing.  The few exceptions stand below, each with its reason.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from pathlib import Path

import own_libvirt
import pytest
import wal_driver
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from powercut.paths import BUILD

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

MAY_SKIP_IN_CI: dict[str, str] = {
    "*kvm*": "hosted machines rarely nest virtualisation; everything else is tested with TCG",
    "*on_loop*": "it needs root and a kernel with loop devices, which many containers do not give",
    "*test_full_host.py*": "a small file system has to be mounted, which many containers forbid",
    "*test_drivers.py*level*": "its driver needs Node.js, and powercut itself does not",
    "*test_hostile_check.py*programs_of_32_bits*": "some kernels are built without them",
    "*test_hostile_check.py*root_s_check*": "it needs root and a kernel of at least 6.14",
    "*test_sandbox_confined.py*keeps_its_personality*": "some containers forbid personality(2)",
}
"""Patterns of node ids, and why their tests may skip even in CI."""


TOGETHER = "vm/recording"
"""A folder whose files use the same recordings: one process makes them, once."""


def group_of(path: Path) -> str:
    """What runs in one process: a file, or a folder with what its files share."""
    return TOGETHER if path.is_relative_to(TOGETHER) else str(path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns run by name only.

    What takes longest begins first: else one process would end with it while the other has nothing.
    """
    items.sort(key=lambda item: TESTS / "vm" not in item.path.parents)
    if "campaign" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("campaign")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


class _ByGroup(LoadScopeScheduling):
    """A file stays in one of the processes, with what it has booted."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(Path(nodeid.partition("::")[0]).relative_to(TESTS.name))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _ByGroup:
    """Not xdist's own groups: pytest 9.2 drops the suffix of an id by which it knows them, and each
    module's fixtures were made in both processes."""
    return _ByGroup(config, log)


@pytest.fixture(scope="session")
def wal(tmp_path_factory: pytest.TempPathFactory) -> wal_driver.Wal:
    """The `wal` program, built once a session."""
    return wal_driver.build(tmp_path_factory.mktemp("wal-build"))


@pytest.fixture(scope="session")
def libvirt_uri() -> Iterator[str]:
    """A connection to a libvirtd that nobody else uses."""
    if why := own_libvirt.absent():
        pytest.skip(why)
    with own_libvirt.own_libvirtd() as uri:
        yield uri


def _refuse_skip(node_id: str, report: pytest.TestReport | pytest.CollectReport) -> None:
    if not os.environ.get("CI") or not report.skipped or hasattr(report, "wasxfail"):
        return
    if any(fnmatch(node_id, pattern) for pattern in MAY_SKIP_IN_CI):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"skipped in CI, where everything must run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a skip is a failure."""
    report = yield
    _refuse_skip(item.nodeid, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In CI, a module that skips itself is a failure, too."""
    report = yield
    _refuse_skip(collector.nodeid, report)
    return report
