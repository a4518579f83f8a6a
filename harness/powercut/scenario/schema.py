# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of scenarios, from which editors complete and check them."""

from __future__ import annotations

from typing import Any, Final

from powercut.scenario.load import ScenarioFile
from powercut.scenario.settings import GROUPS, SINGLE
from powercut.scenario.settings_workload import KINDS

SCHEMA_ID: Final = "https://powercut.invalid/schema/scenario.schema.json"
"""A name, not an address: schemas are identified by URIs."""

_PRESET: Final = {
    "type": "string",
    "description": "A preset, or NAME/remedy: settings that stand below those beside it.",
}


def scenario_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a scenario file."""
    schema = ScenarioFile.model_json_schema(mode="validation")
    settings = _dotted(schema, schema["$defs"])
    properties = schema["properties"]
    properties["cells"] = _cells(settings, properties["cells"]["description"])
    properties["matrix"] = _matrix(settings, properties["matrix"]["description"])
    schema["required"] = ["powercut", "name"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **schema,
    }


def _cells(settings: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "title": "Cells",
        "description": description,
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9._,=-]*$",
                    "description": "Name of the cell.",
                },
                "description": {"type": "string", "description": "What the cell shows."},
                "preset": _PRESET,
                **settings,
            },
        },
    }


def _matrix(settings: dict[str, Any], description: str) -> dict[str, Any]:
    match = {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cell": {"type": "string", "description": "Name of a named cell."},
                "preset": _PRESET,
                **settings,
            },
        },
    }
    return {
        "title": "Matrix",
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{
                key: {"type": "array", "minItems": 1, "items": value}
                for key, value in settings.items()
            },
            "preset": {"type": "array", "minItems": 1, "items": _PRESET},
            "strategy": {
                "enum": ["product", "pairwise"],
                "description": "How combinations become cells; what cannot be is left out.",
            },
            "include": match,
            "exclude": match,
        },
    }


def _dotted(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of every setting that a cell may override, by dotted key."""
    schemas: dict[str, Any] = {}
    for group, models in GROUPS.items():
        for model in models:
            for key, value in definitions[model.__name__]["properties"].items():
                schemas.setdefault(f"{group}.{key}", value)
    schemas["workload.kind"] = {**schemas["workload.kind"], "enum": list(KINDS)}
    schemas["workload.kind"].pop("const", None)
    return schemas | {key: schema["properties"][key] for key in SINGLE}
