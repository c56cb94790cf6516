"""The adapter that a configuration names, with its keys."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from clozeline.errors import ConfigurationError
from clozeline.registry import find


@dataclass(frozen=True)
class AdapterConfig:
    """An adapter: `lora`, or `{name: lora, rank: 4}`. Its keys are the `Options` of the file in model/adapters."""

    WORD: ClassVar = "name"

    name: str
    """A file of model/adapters."""
    options: Any
    """Its keys, checked."""

    @classmethod
    def of(cls, given: Any) -> AdapterConfig:
        """Return the adapter that a word, or a mapping with `name`, means.

        Raises:
            ValueError: there is no such adapter, or a key is unknown or has a wrong value.
        """
        if isinstance(given, AdapterConfig):
            return given
        plain = {"name": given} if isinstance(given, str) else given
        if not isinstance(plain, Mapping) or not isinstance(plain.get("name"), str):
            raise ValueError(f"expected the name of an adapter, or a mapping with 'name', got {given!r}")  # noqa: TRY004
        name, keys = plain["name"], {key: value for key, value in plain.items() if key != "name"}
        try:
            kind = find("clozeline.model.adapters", name).Options
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        try:  # as JSON, in which a list is strictly a tuple
            return cls(name, TypeAdapter(kind).validate_json(json.dumps(keys, default=str), strict=True))
        except ValidationError as error:
            raise ValueError("; ".join(_problem(name, kind, item) for item in error.errors())) from error

    def plain(self) -> dict[str, Any]:
        """Return name and keys as plain data."""
        return {"name": self.name, **TypeAdapter(type(self.options)).dump_python(self.options, mode="json")}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by `of`, serialise to plain data."""
        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.plain_serializer_function_ser_schema(cls.plain)
        )


def _problem(name: str, kind: Any, error: Any) -> str:
    """Return one mistake in the words of a configuration's."""
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "unexpected_keyword_argument":
        known = [field.name for field in fields(kind)]
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known) or 'none'}"
        return f"adapter {name}: unknown key '{key}'; {hint}"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    return f"adapter {name}: {key or 'keys'}: {message}, got {error['input']!r}"
