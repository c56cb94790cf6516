"""Objects that hold a hash of themselves."""

from __future__ import annotations

import json

import pytest

from pipeline.sealed_json import sealed, unsealed

CONTENT = {"b": [1, 2.5, None], "a": {"é": "\udcff"}, "c": True}


def test_what_is_sealed_is_found_again_in_any_order_of_keys():
    text = json.dumps(sealed(CONTENT))
    assert unsealed(json.loads(text)) == CONTENT
    assert sealed(dict(reversed(CONTENT.items())))["checksum"] == json.loads(text)["checksum"]


def test_an_object_of_an_earlier_version_has_no_checksum():
    assert unsealed(CONTENT) == CONTENT


@pytest.mark.parametrize("key", ["a", "b", "c", "checksum"])
def test_every_changed_value_is_noticed(key):
    with pytest.raises(ValueError, match="checksum: expected"):
        unsealed({**sealed(CONTENT), key: "other"})


def test_a_missing_value_is_noticed():
    whole = sealed(CONTENT)
    del whole["b"]
    with pytest.raises(ValueError, match="checksum: expected"):
        unsealed(whole)
