"""The JSON Schemas of manifests and checkpoints are current, take what was written, and refuse what
the readers refuse."""

import copy
import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline.errors import CheckpointError
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import Index
from docs.generate.schemas import write_schemas

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "format_0.1"
SCHEMAS = write_schemas()
MANIFEST, CHECKPOINT = (json.loads(text) for text in SCHEMAS.values())
MANIFESTS = sorted(GOLDEN.rglob("manifest.json"))
CHECKPOINTS = sorted(GOLDEN.rglob("checkpoint.json"))
OTHERS = ("text", -1, 0.5, None, [], {}, True)
"""Values of every type, one of which no key takes."""


@pytest.fixture(scope="module")
def validator():
    """Return whether an object has the form of a schema, as another library judges."""
    jsonschema = pytest.importorskip("jsonschema", reason="pip install -e '.[dev]' installs it")
    judges = {}
    for schema in (MANIFEST, CHECKPOINT):
        jsonschema.Draft202012Validator.check_schema(schema)
        judges[schema["title"]] = jsonschema.Draft202012Validator(schema)
    return lambda schema, content: judges[schema["title"]].is_valid(content)


def reads_manifest(content):
    try:
        Manifest.model_validate_json(json.dumps(content))
    except ValidationError:
        return False
    return True


def reads_checkpoint(content):
    rest = {key: value for key, value in content.items() if key != "checksum"}
    try:
        TrainState.read(TypeAdapter(Index).validate_json(json.dumps(rest)).state)
    except (ValidationError, CheckpointError):
        return False
    return True


CONTRADICTIONS = {
    ("objective",),
    ("objective", "frame"),
    ("state", "samples"),
    ("state", "stream"),
}
"""Keys that another key contradicts if they are missing or have another value, next to columns"""
CASES = {
    "manifest": (MANIFEST, reads_manifest, MANIFESTS),
    "checkpoint": (CHECKPOINT, reads_checkpoint, CHECKPOINTS),
}


@pytest.mark.parametrize("path", SCHEMAS)
def test_the_files_are_current(path):
    assert (ROOT / path).read_text(encoding="utf-8") == SCHEMAS[path], "run `make docs`"


@pytest.mark.parametrize("name", CASES)
def test_what_was_written_has_the_form(name, validator):
    schema, reads, files = CASES[name]

    assert len(files) > 10

    for path in files:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert reads(content), path
        assert validator(schema, content), path


@pytest.mark.parametrize("name", CASES)
def test_no_written_key_may_be_missing(name, validator):
    schema, _, files = CASES[name]
    content = json.loads(files[0].read_text(encoding="utf-8"))
    paths = [(key,) for key in content]
    for part in {"state", "objective", "totals", "tokenizer", "compression"} & content.keys():
        paths += [(part, key) for key in content[part] or () if key not in TrainState.OPTIONAL]

    assert [path for path in paths if validator(schema, change(content, path, ...))] == []


def damages(content):
    """Yield copies of an object in which a key is missing, unknown, or has another type.

    Entries of long lists and mappings are like their first.
    """

    def walk(part, path):
        entries = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in list(entries)[:20]:
            yield (*path, key), value
            if isinstance(value, (dict, list)) and value:
                yield from walk(value, (*path, key))

    for path, value in walk(content, ()):
        for other in OTHERS:
            if type(other) is not type(value):
                yield path, change(content, path, other)
        if isinstance(path[-1], str):
            yield path, change(content, path, ...)
            yield path, change(content, (*path[:-1], "unknown"), 1)


def change(content, path, value):
    """Return a copy with another value at a path; `...` removes the key."""
    changed = copy.deepcopy(content)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_refused_where_the_reader_refuses_it(name, validator):
    """The schema refuses nothing that the reader takes, but the checksum, which is compared before,
    roles, whose types the reader does not check, and a missing key with a default. It takes what
    contradicts another key."""
    schema, reads, files = CASES[name]
    content = json.loads(files[0].read_text(encoding="utf-8"))
    told = {}

    for path, damaged in damages(content):
        if change(content, path, ...) == damaged and not validator(schema, damaged):
            continue
        verdicts = (reads(damaged), validator(schema, damaged))
        told.setdefault(verdicts, []).append(path)

    assert len(told[False, False]) > 80
    assert {path for path in told.get((True, False), []) if "role" not in path} <= {("checksum",)}
    assert {path[:2] for path in told.get((False, True), [])} <= CONTRADICTIONS | {
        path[:2] for path, _ in damages(content) if path[0] == "columns"
    }
