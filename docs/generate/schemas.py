"""The JSON Schemas of manifests and checkpoints, from the classes that read them."""

import inspect
import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from clozeline.configuration.described_keys import describe
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import Index
from clozeline.train.registries import STATE_KEYS

_CHECKSUM: Final = {
    "type": "string",
    "pattern": "^[0-9a-f]{64}$",
    "description": "SHA-256 of the file without this key, as canonical JSON",
}


class _Untitled(GenerateJsonSchema):
    """JSON Schemas whose keys have no titles, which would repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema_of(kind: Any, omitted: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a class, with the docstrings of its keys.

    All keys are required, also those with a default, except what a writer omits.
    """
    schema = TypeAdapter(kind).json_schema(schema_generator=_Untitled)
    meanings = {each.key: each.meaning for each in describe(kind) if each.meaning}
    for key, entry in schema["properties"].items():
        if key in meanings:
            entry["description"] = meanings[key]
    for part in (schema, *schema["$defs"].values()):
        if keys := part.get("properties"):
            part["required"] = [key for key in keys if key not in omitted]
    return schema


def write_schemas() -> dict[str, str]:
    """Return the text of each schema by its path in the repository."""
    facts = RowForm.model_fields.keys() - {"padding_side", "decoder_start"}
    manifest = _schema_of(Manifest, (*facts, "checksum"))
    checkpoint = _schema_of(Index, ())
    state = _schema_of(TrainState, TrainState.OPTIONAL)
    del state["properties"]["added"]
    state["required"].remove("added")
    for name in STATE_KEYS.available():
        meaning = inspect.getdoc(STATE_KEYS.load_class(name))
        state["properties"][name] = {"description": meaning, "type": "object"}
    checkpoint["$defs"] |= {**state.pop("$defs"), "TrainState": state}
    checkpoint["properties"]["state"] = {"$ref": "#/$defs/TrainState"}

    written = {}
    for path, schema in (
        ("pipeline/shards/manifest.schema.json", manifest),
        ("train/checkpoint/checkpoint.schema.json", checkpoint),
    ):
        # the readers compare the checksum before the classes see a file
        schema["properties"]["checksum"] = _CHECKSUM
        schema["required"].append("checksum")
        content = {"$schema": GenerateJsonSchema.schema_dialect, **schema}
        written[path] = json.dumps(content, indent=1) + "\n"
    return written
