# SPDX-License-Identifier: Apache-2.0
"""Models whose fields are described by the strings below them.

pydantic has that, too (`use_attribute_docstrings`), and reads the source of every class for it
when it is imported: a third of the start of most commands.  Here the source is read where a schema
or a table is made of a model.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Documented(BaseModel):
    """Immutable, and unknown keys are errors.  It is built when it is first used."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """With what the source says of each field."""
        made = handler(core_schema)
        properties: dict[str, Any] = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in descriptions_of(cls).items():
            key = name if name in properties else cls.model_fields[name].alias
            if key in properties:
                properties[key]["description"] = text
        return made


@cache
def descriptions_of(model: type[BaseModel]) -> dict[str, str]:
    """What the source says of the fields of `model`, by their names."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, Documented) or base is Documented:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ) if name in model.model_fields:
                    found[name] = inspect.cleandoc(words)
    return found
