# SPDX-License-Identifier: Apache-2.0
"""What of docs/ follows from the settings: the table in scenario-reference.md, and JSON schemas.

    .venv/bin/python tests/support/reference_page.py

writes both; git ignores the schemas, and a test compares the table.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from pydantic.fields import FieldInfo

from powercut.documented import descriptions_of
from powercut.paths import ROOT
from powercut.report.reference import published
from powercut.scenario.load import ScenarioFile
from powercut.scenario.quantity import format_duration, format_size
from powercut.scenario.settings import GROUPS, Parameters, Settings, TriggerSettings

BEGIN: Final = "<!-- generated: settings -->"
END: Final = "<!-- end of generated -->"
REFERENCE: Final = "scenario-reference.md"


def write_schemas(docs: Path) -> None:
    """Writes the schemas below `docs`."""
    for name, text in published().items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def settings_tables() -> str:
    """The tables of all settings, in Markdown."""
    own = _own_fields(ScenarioFile, Parameters)
    lines = ["### The file", "", *_table("", ScenarioFile, own), ""]
    lines += ["### Each cell", "", *_table("", Parameters, _cell_fields()), ""]
    for group, models in GROUPS.items():
        for model in models:
            kind = "" if model is models[0] else f", kind `{_kind_of(model)}`"
            lines += [f"### {group}{kind}", "", _words(model.__doc__), ""]
            own = _own_of(model, models)
            lines += [*_table(f"{group}.", model, own), ""]
    lines += ["### cut.trigger", "", _words(TriggerSettings.__doc__), ""]
    lines += _table("", TriggerSettings, TriggerSettings.model_fields)
    return "\n".join(lines) + "\n"


def _own_of(model: type[Settings], models: Sequence[type[Settings]]) -> dict[str, FieldInfo]:
    """The fields that it has besides those of the model that it is a kind of."""
    of = next((one for one in models if one is not model and issubclass(model, one)), None)
    known = {} if of is None else of.model_fields
    return {
        name: field
        for name, field in model.model_fields.items()
        if name == "kind" or name not in known
    }


def _kind_of(model: type[Settings]) -> str:
    return str(get_args(model.model_fields["kind"].annotation)[0])


def _own_fields(model: type[ScenarioFile], base: type[Parameters]) -> dict[str, FieldInfo]:
    return {
        name: field for name, field in model.model_fields.items() if name not in base.model_fields
    }


def _cell_fields() -> dict[str, FieldInfo]:
    return {name: field for name, field in Parameters.model_fields.items() if name not in GROUPS}


def _table(prefix: str, model: type[Settings], fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    described = descriptions_of(model)
    yield "| setting | values | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in fields.items():
        meaning = _words(described.get(name)).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {_values(field)} | {_default(field)} | {meaning} |"


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _values(field: FieldInfo) -> str:
    for candidate in (field.annotation, *get_args(field.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, enum.Enum):
            return ", ".join(f"`{item.value}`" for item in list(candidate))
        if candidate is bool:
            return "`true`, `false`"
    return _kind(field)


def _kind(field: FieldInfo) -> str:
    """What to write for a setting that is not one of a few words."""
    # The validators tell what a plain int or tuple stands for.
    described = f"{field.annotation} {field.metadata}"
    for part, kind in (
        ("_is_interval", "two durations"),
        ("parse_duration", "duration"),
        ("parse_size", "size"),
        ("_parse_controls", "`auto`, `none`, list"),
        ("Literal[1]", "`1`"),
        ("Literal['program']", "`program`"),
        ("Literal['cluster']", "`cluster`"),
        ("Literal['wal']", "`wal`, `program`, `cluster`"),
        ("Literal['host']", "`host`"),
        ("TriggerSettings", "mapping"),
        ("list", "list"),
        ("dict", "mapping"),
        ("tuple", "list"),
    ):
        if part in described:
            return kind
    # As a word: a pattern for text is among "constraints".
    return "number" if re.search(r"\b(int|float)\b", described) else "text"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, TriggerSettings):
        value = json.dumps(value.given()).replace('"', "")
    elif value is None or value in ((), "", {}):
        return "`auto`" if _kind(field).startswith("`auto`") else ""
    elif isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, tuple) and all(isinstance(item, enum.Enum) for item in value):
        words = ", ".join(f"`{item.value}`" for item in value)
        return "all" if words == _values(field) else words
    elif _kind(field) == "duration":
        value = format_duration(value)
    elif _kind(field) == "size":
        value = format_size(value)
    return f"`{value}`"


def reference_with(text: str) -> str:
    """The scenario reference `text` with its tables brought up to date."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{settings_tables()}\n{END}{after}"


def main(docs: Path = ROOT / "docs") -> None:
    """Writes everything that is generated."""
    write_schemas(docs)
    page = docs / REFERENCE
    page.write_text(reference_with(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
