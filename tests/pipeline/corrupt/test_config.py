from __future__ import annotations

from typing import Any

import pytest

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.config import CorruptConfig


def test_entries_keep_the_objectives_options_beside_their_own() -> None:
    entries = validate(
        CorruptConfig, ["masked_lm", {"name": "masked_lm", "label": "b", "mask_rate": 0.3, "variants": 4}], "x"
    )
    assert [one.set_label for one in entries] == ["masked_lm", "b"]
    assert (entries[1].variants, entries[1].objective.options.mask_rate) == (4, 0.3)
    assert validate(CorruptConfig, [to_plain(one) for one in entries], "x") == entries


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["masked_lm", "masked_lm"], "two objectives share the label masked_lm"),
        ([{"name": "masked_ml"}], "did you mean 'masked_lm'"),
        ([{"name": "masked_lm", "mask_rat": 0.1}], "unknown key 'mask_rat'; did you mean 'mask_rate'"),
        ([{"name": "masked_lm", "label": "../up"}], "label"),
        ([{"name": "masked_lm", "variants": 0}], "variants"),
        ([{"name": "masked_lm", "container": "zip"}], "container"),
        ([{"mask_rate": 0.1}], "name"),
        ([], "at least 1"),
    ],
)
def test_wrong_entries(entries: list[Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        validate(CorruptConfig, entries, "corrupt")


def test_an_entry_alone_has_one_variant_of_the_recipes_seed() -> None:
    (entry,) = validate(CorruptConfig, ["causal_lm"], "x")
    assert (entry.variants, entry.seed, entry.container, entry.block_rows) == (1, None, "arrow", "auto")
    assert (entry.compression.codec, entry.compression.level) == ("zstd", 3)


def test_all_labels_that_occur_twice_are_named() -> None:
    names = [{"name": "masked_lm", "label": label} for label in "aabbc"]
    with pytest.raises(ConfigurationError, match="two objectives share the label a, b; give one of them"):
        validate(CorruptConfig, names, "x")
