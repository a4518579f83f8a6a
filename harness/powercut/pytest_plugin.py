# SPDX-License-Identifier: Apache-2.0
"""`pytest scenarios/` runs scenarios: each cell is a test.

A YAML file is a scenario if it says `powercut: 1` at the start of a line; all others are
left alone, so that the plugin may be installed beside anything.  The package itself is
imported only once such a file is collected.

A class below `@powercut_program.program()` is a test, too: a program with the methods setup, run
and check, to which `powercut try` is put.

A cell passes if its verdict is the expected one, a program if it is SAFE.  INCONCLUSIVE fails,
and says why.  Cells are independent of each other and may run in parallel (`-n`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from powercut.scenario.plan import Cell
    from powercut.store.results import CellResult, RunResult

_MARK = re.compile(rb"^powercut:\s*\d", re.MULTILINE)
_HEAD = 8192
"""Bytes at the start of a file within which it must say that it is a scenario."""

_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ours."""
    group = parser.getgroup("powercut", "power cuts")
    group.addoption("--powercut-seed", type=int, help="root seed of scenarios that do not give one")
    group.addoption("--powercut-results", type=Path, metavar="DIR", help="where results are kept")
    group.addoption("--powercut-trials", type=int, help="trials of each cell, instead of its own")


def pytest_configure(config: pytest.Config) -> None:
    """Marks of ours, and one seed for the session, the same on every xdist worker."""
    config.addinivalue_line("markers", "campaign: takes minutes to hours; runs by name only")
    config.addinivalue_line("markers", "vm: boots QEMU guests")
    given = config.getoption("--powercut-seed")
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[_SEED] = int(given)
    elif workerinput is not None:
        config.stash[_SEED] = int(workerinput["powercut_seed"])
    else:
        import secrets

        config.stash[_SEED] = secrets.randbelow(10**9)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives an xdist worker the session's seed: all must collect the same tests."""
    node.workerinput["powercut_seed"] = node.config.stash[_SEED]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioCollector | None:
    """Takes YAML files that say they are scenarios."""
    if file_path.suffix not in (".yaml", ".yml") or _is_kept_copy(file_path):
        return None
    if not _is_scenario(file_path):
        return None
    collector: ScenarioCollector = ScenarioCollector.from_parent(parent, path=file_path)
    return collector


def _is_scenario(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _is_kept_copy(path: Path) -> bool:
    """Whether this is the copy that a result keeps of its scenario."""
    return path.name == "scenario.yaml" and path.with_name("reproduce.sh").exists()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out campaigns unless the user's -m speaks of them."""
    if "campaign" in (config.option.markexpr or ""):
        return
    left_out = [
        item for item in items if isinstance(item, CellItem) and item.get_closest_marker("campaign")
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_report_header(config: pytest.Config) -> str | None:
    """Says the seed, so that a failure can be repeated."""
    return f"powercut: seed {config.stash[_SEED]} where a scenario gives none"


class ScenarioRunner:
    """Runs scenarios for tests that are written in Python."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self._folder = folder

    def __call__(
        self, scenario: Path | str | Mapping[str, Any], *, seed: int | None = None
    ) -> RunResult:
        """Runs `scenario`, a file or what would stand in one, and returns what came out.

        Verdicts that differ from the expected ones are no exceptions: the test decides.  Raises
        UsageError for a mistake in the scenario, HostError if this host cannot run it.
        """
        from powercut.campaign.runner import run_scenarios
        from powercut.paths import RESULTS
        from powercut.report.publish import write_reports
        from powercut.store.layout import ResultDir

        if isinstance(scenario, (str, Path)):
            path = Path(scenario)
        else:
            import json

            path = self._folder / f"{scenario.get('name', 'scenario')}.yaml"
            path.write_text(json.dumps(scenario), encoding="utf-8")  # JSON is YAML
        outcome = run_scenarios(
            [path],
            seed=self._config.stash[_SEED] if seed is None else seed,
            results=self._config.getoption("--powercut-results") or RESULTS,
            trials=self._config.getoption("--powercut-trials"),
        )
        (run,) = outcome.runs
        write_reports(ResultDir.open(Path(run.result_directory)))
        return run

    @staticmethod
    def explain(run: RunResult) -> str:
        """What came of each cell that is not as expected, for the message of an assertion."""
        from powercut.report.terminal.table import failure_text

        unexpected = [failure_text(run, cell) for cell in run.cells if not cell.as_expected]
        return "\n".join(unexpected or [f"all as expected: {run.result_directory}"])


@pytest.fixture
def powercut_run(request: pytest.FixtureRequest, tmp_path: Path) -> ScenarioRunner:
    """Runs a scenario, a file or a mapping, and returns its result."""
    return ScenarioRunner(request.config, tmp_path)


class CellFailed(Exception):
    """A cell did not come out as expected."""

    def __init__(self, run: RunResult, cell: CellResult) -> None:
        super().__init__(f"{cell.cell}: {cell.verdict.name}")
        self.run = run
        self.cell = cell


class ScenarioCollector(pytest.File):
    """One scenario file."""

    def collect(self) -> Iterator[CellItem]:
        """Its cells.  A mistake in the file is an error of collection, without traceback."""
        from powercut.model.errors import PowercutError
        from powercut.scenario.load import expand, load_scenario

        try:
            scenario = load_scenario(self.path)
        except PowercutError as error:
            raise self.CollectError(str(error)) from error
        seed = scenario.settings.seed
        if seed is None:
            seed = self.config.stash[_SEED]
        plan = expand(scenario, seed=seed, trials=self.config.getoption("--powercut-trials"))
        for cell in plan.cells:
            item: CellItem = CellItem.from_parent(self, name=cell.name, cell=cell, seed=seed)
            item.add_marker("vm")
            if scenario.settings.campaign:
                item.add_marker("campaign")
            yield item


class _PowercutItem(pytest.Item):
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What a person needs; a traceback only for what is a bug in powercut."""
        from click import ClickException

        from powercut.model.errors import PowercutError
        from powercut.model.printable import printable

        error = excinfo.value
        if isinstance(error, CellFailed):
            from powercut.report.terminal.table import failure_text

            return printable(failure_text(error.run, error.cell))
        if isinstance(error, ProgramFailed):
            return str(error)
        if isinstance(error, ClickException):
            return printable(error.format_message())
        if isinstance(error, PowercutError):
            return printable(f"{error}\nhint: {error.hint}" if error.hint else str(error))
        return super().repr_failure(excinfo, style)


class CellItem(_PowercutItem):
    """One cell of a scenario."""

    def __init__(self, *, cell: Cell, seed: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.cell = cell
        self.seed = seed

    def runtest(self) -> None:
        """Runs the cell with its controls; raises CellFailed unless it is as expected."""
        from powercut.campaign.runner import run_scenarios
        from powercut.paths import RESULTS
        from powercut.report.junit import properties
        from powercut.report.publish import write_reports
        from powercut.store.layout import ResultDir

        outcome = run_scenarios(
            [self.path],
            seed=self.seed,
            results=self.config.getoption("--powercut-results") or RESULTS,
            only=[self.cell.name],
            trials=self.config.getoption("--powercut-trials"),
        )
        (run,) = outcome.runs
        (cell,) = run.cells
        write_reports(ResultDir.open(Path(run.result_directory)))
        self.user_properties += properties(cell).items()
        self.user_properties.append(("result_directory", run.result_directory))
        if not cell.as_expected:
            raise CellFailed(run, cell)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """File and name as pytest shows them."""
        return self.path, None, f"cell: {self.name}"


_PROGRAM_MARK = "__powercut__"
"""powercut_program.MARK: that module is imported by the test file, not by the plugin."""


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> ProgramItem | None:
    """Takes classes below `@powercut_program.program()`, in the file that has them."""
    if not isinstance(obj, type) or _PROGRAM_MARK not in vars(obj):
        return None
    if obj.__module__ != getattr(collector.getparent(pytest.Module), "obj", obj).__name__:
        return None  # imported from another test file, which has it
    missing = [verb for verb in ("setup", "run", "check") if not callable(getattr(obj, verb, None))]
    if missing:
        raise pytest.Collector.CollectError(f"{name}: it has no method {', '.join(missing)}")
    item: ProgramItem = ProgramItem.from_parent(collector, name=name, program=obj)
    return item


class ProgramFailed(Exception):
    """A program was not SAFE; the text is what `powercut try` printed."""


class ProgramItem(_PowercutItem):
    """A class with the methods setup, run and check, to which `powercut try` is put."""

    def __init__(self, *, program: type, **rest: Any) -> None:
        super().__init__(**rest)
        self.program = program
        self.own_markers.extend(getattr(program, "pytestmark", ()))
        self.add_marker("vm")

    def runtest(self) -> None:
        """Tries the program; raises ProgramFailed unless it is SAFE."""
        import contextlib
        import io

        from powercut.api import class_command
        from powercut.cli.try_ import try_
        from powercut.model.verdict import Verdict
        from powercut.paths import RESULTS
        from powercut.report import words

        results = self.config.getoption("--powercut-results") or RESULTS
        argv = [f"--results={results}", f"--seed={self.config.stash[_SEED]}"]
        argv += [*self._options(), "--", *class_command(self.program)]
        with (
            contextlib.redirect_stdout(io.StringIO()) as said,
            try_.make_context("try", argv) as on,
        ):
            status = try_.invoke(on)
        verdict = {0: Verdict.SAFE, 1: Verdict.LOSSY}.get(status, Verdict.INCONCLUSIVE)
        title = f"{words.mark(verdict)} {verdict.name}  "
        told = (
            title + said.getvalue().rpartition(f"\n{title}")[2]
        )  # the progress before it is left out
        if status != 0:
            raise ProgramFailed(told.rstrip())
        self.add_report_section("call", "powercut", told)

    def _options(self) -> Iterator[str]:
        """The decorator's options, as the command line has them.

        Raises UsageError for those that `powercut try` has not, or that a test may not choose.
        """
        from powercut.api import import_path
        from powercut.cli.try_ import try_
        from powercut.model.errors import UsageError

        known = {option for one in try_.params for option in one.opts if option[0] == "-"}
        known -= {"--dry-run", "--json", "--results"}

        yield f"--env=PYTHONPATH={import_path()}"
        options: dict[str, object] = getattr(self.program, _PROGRAM_MARK)
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            if option not in known:
                hint = f"these are: {', '.join(sorted(one[2:] for one in known))}"
                raise UsageError(f"{self.name}: {name} is no option of a test", hint=hint)
            if isinstance(value, Mapping):
                yield from (f"{option}={key}={one}" for key, one in value.items())
            elif value is True:
                yield option
            elif value is not False:
                yield f"{option}={value}"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """File, line and name as pytest shows them."""
        return self.path, inspect.getsourcelines(self.program)[1] - 1, self.name
