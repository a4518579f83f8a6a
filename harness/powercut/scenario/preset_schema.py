# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of presets, from which editors complete and check them."""

from __future__ import annotations

from typing import Any, Final

from powercut.scenario.preset import Preset
from powercut.scenario.schema import scenario_schema

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
