from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.passes import sample_sets
from clozeline.pipeline.group.stage import GroupStage
from tests.pipeline.group.group_rows import LENGTHS, MLM, PAIRED
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set


def test_there_is_one_set_per_distinct_grouping(tmp_path):
    write_token_set(tmp_path, LENGTHS)
    entries = [
        *MLM,
        {"name": "masked_lm", "label": "again", "max_length": 34, "mask_rate": 0.3},
        {"name": "causal_lm", "max_length": 32},
        {"name": "document_rotation", "max_length": 40},
        {"name": "sentence_reordering", "max_length": 40},
    ]
    stage = GroupStage(recipe(tmp_path, entries))
    found = {one.label: (one.minimum.tokens, one.minimum.sentences) for one in stage.sets}
    assert found == {"packed-32-sep": (1, 1), "packed-32-eos": (2, 1), "document-38-none": (1, 1)}
    alone = GroupStage(recipe(tmp_path, entries[-1:]))
    assert [(one.minimum.tokens, one.minimum.sentences) for one in alone.sets] == [(1, 2)]
    assert stage.version() != alone.version(), "the sets follow the objectives, so they are part of the key"


def test_no_objectives_are_an_error(tmp_path):
    write_token_set(tmp_path, LENGTHS)
    with pytest.raises(ConfigurationError, match="no `corrupt` key"):
        run_stage(recipe(tmp_path, None), "group")


@settings(max_examples=40)
@given(st.permutations(range(5)), st.integers(1, 5))
def test_sets_follow_from_the_objectives_in_any_order(order, count):
    """Each set serves its objectives: the smallest row is the smallest that any of them can use."""
    plain = [*MLM, *PAIRED[:2], {"name": "causal_lm", "max_length": 32}, {"name": "masked_lm", "max_length": 20}]
    chosen = [plain[index] for index in order[:count]]
    entries = recipe(Path("unused"), [{**entry, "label": str(n)} for n, entry in enumerate(chosen)]).corrupt
    found = sample_sets(entries, WORDS)
    built = [entry.build(WORDS) for entry in entries]
    assert [one.label for one in found] == sorted({objective.grouping.label for objective in built})
    for one in found:
        minima = [objective.minimum for objective in built if objective.grouping.label == one.label]
        assert (one.minimum.tokens, one.minimum.sentences) == (
            min(minimum.tokens for minimum in minima),
            min(minimum.sentences for minimum in minima),
        )


def test_two_groupings_with_one_label_are_an_error():
    entries = recipe(Path("unused"), [
        {"name": "text_to_text", "label": str(number), "tasks": [{"source": source}]}
        for number, source in enumerate(("a/b", "a_b", "a_b"))
    ]).corrupt  # fmt: skip
    assert len(sample_sets(entries[1:], WORDS)) == 1
    with pytest.raises(ConfigurationError, match=r"two groupings share a label: \['parallel-"):
        sample_sets(entries, WORDS)
