# SPDX-License-Identifier: Apache-2.0
"""The JSON schemas that are published; a wheel has them (setup.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from powercut.model.errors import HostError
from powercut.model.extras import loaded, registered
from powercut.scenario.preset import Preset
from powercut.scenario.schema import scenario_schema
from powercut.store.record import Record
from powercut.store.results import CampaignOutcome, RunResult


def published() -> dict[str, str]:
    """The text of every schema, by its path below docs/."""
    texts = {
        "schema/scenario.schema.json": _json(scenario_schema()),
        "schema/preset.schema.json": _json(preset_schema()),
        "schema/verdict.schema.json": _json(_result_schema(RunResult, "verdict")),
        "schema/campaign.schema.json": _json(_result_schema(CampaignOutcome, "campaign")),
    }
    for name, place in registered("powercut.schemas").items():
        with suppress(HostError):  # a broken extra has none
            texts[f"schema/{name}.schema.json"] = _json(_result_schema(loaded(place), name))
    return texts


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _result_schema(model: type[Record], name: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://powercut.invalid/schema/{name}.schema.json",
        **model.model_json_schema(mode="serialization"),
    }


# The JSON schema of presets, from which editors complete and check them.

SCHEMA_ID: Final = "https://powercut.invalid/schema/preset.schema.json"


def preset_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a preset file."""
    schema = Preset.model_json_schema(mode="validation", by_alias=True)
    scenario = scenario_schema()
    cell = scenario["properties"]["cells"]["items"]["properties"]
    settings = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: value for key, value in cell.items() if key.startswith(("machine.", "disk."))
        },
    }
    for properties in (schema["properties"], schema["$defs"]["Remedy"]["properties"]):
        properties["settings"] = {
            "title": "Settings",
            "description": properties["settings"]["description"],
            **settings,
        }
    schema["$defs"] = {**scenario["$defs"], **schema["$defs"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}
