"""Entries of objectives: a name, or one mapping with the entry's keys and the objective's next to
each other."""

from dataclasses import replace
from typing import Annotated

import pytest

from clozeline.configuration.config import config_class, to_data, validate
from clozeline.pipeline.corrupt.config import CorruptConfig, NamedObjective, inline_options
from tests.pipeline.corruption_cases import WORDS
from tests.refusals import refused


def test_entries_keep_the_objectives_options_next_to_their_own():
    plain = ["causal_lm", {"name": "masked_lm", "label": "b", "mask_rate": 0.3, "variants": 4}]
    first, second = entries = validate(CorruptConfig, plain, "x")

    assert (first.set_label, first.variants, first.seed, first.container, first.block_rows) == (
        "causal_lm",
        1,
        None,
        "arrow",
        "auto",
    )
    assert (first.compression.codec, first.compression.level) == ("zstd", 3)
    assert (
        second.set_label,
        second.variants,
        second.objective.options.mask_rate,
    ) == ("b", 4, 0.3)
    assert validate(CorruptConfig, [to_data(one) for one in entries], "x") == entries


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [{"name": "masked_lm", "label": label} for label in "aabbc"],
            "two objectives have the same label a, b; give one",
        ),
        ([{"name": "masked_ml"}], "did you mean 'masked_lm'"),
        (
            [{"name": "masked_lm", "mask_rat": 0.1}],
            "unknown key 'mask_rat'; did you mean 'mask_rate'",
        ),
        ([{"name": "masked_lm", "label": "../up"}], "label"),
        ([{"name": "masked_lm", "label": ""}], "label"),
        ([{"name": "masked_lm", "variants": 0}], "variants"),
        ([{"mask_rate": 0.1}], "name"),
        ([], "at least 1"),
    ],
)
def test_wrong_entries(entries, message):
    with refused(message):
        validate(CorruptConfig, entries, "corrupt")


def test_special_tokens_of_the_objective_and_of_its_grouping_are_needed():
    (entry,) = validate(CorruptConfig, [{"name": "masked_lm", "separator": "eos"}], "corrupt")
    entry.check_tokens(WORDS)

    for role in ("mask", "eos"):
        lacking = {name: index for name, index in WORDS.specials.items() if name != role}
        with refused(f"needs the special token '{role}'"):
            entry.check_tokens(replace(WORDS, specials=lacking))


@config_class
class Weighted(NamedObjective):
    """An entry with a key of its own."""

    weight: float = 1.0


@config_class
class Entries:
    """A configuration that holds such entries."""

    entries: list[Annotated[Weighted, inline_options(Weighted)]]


def test_keys_of_another_entry_stand_next_to_those_of_its_objective_too():
    inline = {"name": "masked_lm", "max_length": 64, "weight": 2.5}
    nested = {"objective": {"name": "masked_lm", "max_length": 64}, "label": "nested"}
    first, second = validate(Entries, {"entries": [inline, nested]}, "test").entries

    assert [(one.set_label, one.weight) for one in (first, second)] == [
        ("masked_lm", 2.5),
        ("nested", 1.0),
    ]
    assert first.objective == second.objective
    assert second.build(WORDS).label == "nested"

    with refused("unknown key 'weigth'"):
        validate(Entries, {"entries": [{"name": "masked_lm", "weigth": 2}]}, "test")
