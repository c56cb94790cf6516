"""Objects that hold a hash of themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clozeline.errors import NewerFormatError
from clozeline.sealed_json import refuse_newer, seal, unseal

CONTENT = {"b": [1, 2.5, None], "a": {"é": "\udcff"}, "c": True}


def test_what_is_sealed_is_found_again_in_any_order_of_keys():
    text = json.dumps(seal(CONTENT))
    assert unseal(json.loads(text), "here") == CONTENT
    assert seal(dict(reversed(CONTENT.items())))["checksum"] == json.loads(text)["checksum"]


def test_an_object_without_a_checksum_is_refused():
    with pytest.raises(ValueError, match="checksum: expected None"):
        unseal(CONTENT, "here")


@pytest.mark.parametrize("key", ["a", "b", "c", "checksum"])
def test_every_changed_value_is_noticed(key):
    with pytest.raises(ValueError, match="checksum: expected"):
        unseal({**seal(CONTENT), key: "other"}, "here")


def test_a_missing_value_is_noticed():
    whole = seal(CONTENT)
    del whole["b"]
    with pytest.raises(ValueError, match="checksum: expected"):
        unseal(whole, "here")


def test_a_newer_format_is_told_from_a_changed_one():
    newer = seal({**CONTENT, "format": 3})
    assert unseal(newer, "here", 3)["format"] == 3
    with pytest.raises(NewerFormatError, match="here: format 3 of a newer version, this version reads format 2"):
        unseal(newer, "here", 2)
    with pytest.raises(ValueError, match="checksum: expected"):
        unseal({**newer, "format": 4}, "here", 2)


@pytest.mark.parametrize("content", [{}, {"format": 1}, {"format": 2}, {"format": "3"}, {"format": None}, [3], None])
def test_what_is_not_newer_is_left_to_its_reader(content: Any) -> None:
    refuse_newer("file.json", content, 2)


def test_the_message_names_file_formats_and_the_way_out() -> None:
    with pytest.raises(NewerFormatError) as found:
        refuse_newer("file.json", {"format": 3}, 2)
    assert found.value.exit_code == 64
    said = "file.json: format 3 of a newer version, this version reads format 2: install a newer Clozeline"
    assert str(found.value) == said
