"""Group: train and held-out sets, cut once, in an order that nothing but uids decides."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.execution.arguments import Describer
from clozeline.pipeline.execution.equations import EACH, add_up
from clozeline.pipeline.execution.unit_inputs import SomeShards
from clozeline.pipeline.group.documents import train_documents
from clozeline.pipeline.group.stage import GroupStage, sample_sets
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.seeding import mix, order_key
from tests.pipeline.token_sets import WORDS, files_of, recipe, run_stage, write_token_set
from tests.refusals import refused

LENGTHS = [(31 * document) % 90 for document in range(150)]
MLM = [{"name": "masked_lm", "max_length": 34}]
PAIRED = [
    *(
        {"name": name, "max_length": 34}
        for name in ("next_sentence_prediction", "sentence_order_prediction")
    ),
    {"name": "translation_lm", "max_length": 34},
    {"name": "text_to_text", "input_length": 34, "target_length": 60},
    {
        "name": "mixture",
        "parts": [
            {"name": "span_corruption", "label": str(length), "input_length": length}
            for length in (20, 40)
        ],
    },
]


def rows_of_shard(shards, shard):
    blocks = np.flatnonzero(shards.index.shard == shard).tolist()
    return RowBatch.concatenate([shards.read_block(block) for block in blocks])


def uids_of(rows):
    return [uid.tobytes() for uid in rows.fixed["document_uid"]]


def test_train_and_heldout(tmp_path):
    """Documents are dealt to splits and shards by their hash.

    Rows stand in the order of the hash of their uid.
    """
    tokens = write_token_set(tmp_path, LENGTHS, shards=5)
    counts = run_stage(recipe(tmp_path, MLM, heldout=0.6), "group")
    uids = set(uids_of(tokens))
    held = {uid for uid in uids if is_heldout(uid, 0.6, 1)}
    sets = {
        split: open_shards(tmp_path / "group/packed-32-sep" / split, verify="shard")
        for split in ("train", "heldout")
    }

    for split, documents, shards in (("train", uids - held, 5), ("heldout", held, 3)):
        assert len(sets[split].manifest.shards) == shards
        for shard in range(shards):
            rows = rows_of_shard(sets[split], shard)
            assert set(uids_of(rows)) <= documents
            assert {(order_key(uid, "order", 1) * shards) >> 64 for uid in uids_of(rows)} == {shard}
            assert (np.diff(mix(rows.fixed["uid"]).astype(object)) > 0).all()

    for of_splits in counts["sets"].values():
        read = {split: part["documents_in"] for split, part in of_splits.items()}
        assert read == {"train": len(uids) - len(held), "heldout": len(held)}

    (splits,) = counts["sets"].values()

    assert add_up(splits, [(EACH, "tokens_in")]) == sum(LENGTHS)
    assert add_up(splits, [(EACH, "documents_dropped", "empty")]) == LENGTHS.count(0)
    assert {split: part["samples"] for split, part in splits.items()} == {
        split: len(found) for split, found in sets.items()
    }

    manifest = sets["train"].manifest

    assert manifest.languages == ("en", "de")
    assert sum(manifest.totals.tokens_by_language.values()) == manifest.totals.tokens
    assert manifest.grouping.options == {"length": 32, "separator": "sep"}
    assert manifest.parents[0].digest == open_shards(tmp_path / "encode").digest


def test_new_objectives_and_other_orders_leave_every_byte_of_the_sets_there_were(tmp_path):
    found = []

    for number, entries in enumerate(
        (PAIRED, [*MLM, *reversed(PAIRED), {"name": "causal_lm", "max_length": 30}])
    ):
        folder = tmp_path / str(number)
        write_token_set(folder, LENGTHS, shards=3)
        run_stage(recipe(folder, entries, heldout=0.3), "group", backwards=bool(number))
        found.append(
            {name: data for name, data in files_of(folder / "group").items() if "/" in name}
        )

    assert len({name.split("/")[0] for name in found[0]}) == 5
    assert found[0].items() <= found[1].items()


def test_pairs_are_accounted_for_and_partners_are_of_the_same_split_and_shard(tmp_path):
    tokens = write_token_set(tmp_path, LENGTHS, shards=3)
    counts = run_stage(recipe(tmp_path, PAIRED, heldout=0.3), "group")
    both = len(tokens.columns["token_ids"].values) + len(tokens.columns["target_ids"].values)
    for label, splits in counts["sets"].items():
        total = both if label.startswith("parallel") else sum(LENGTHS)
        assert sum(found["tokens_in"] for found in splits.values()) == total

    assert counts["sets"]["parallel-31-none-cut=longer"]["train"]["tokens_dropped"]["empty"] > 0

    for split in ("train", "heldout"):
        shards = open_shards(
            tmp_path / "group/sentence_pair-31-none-partner=True-short_rate=0.1" / split
        )
        for shard in range(len(shards.manifest.shards)):
            for row in rows_of_shard(shards, shard):
                partner = row["partner_document_uid"].tobytes()
                assert is_heldout(partner, 0.3, 1) == (split == "heldout")
                assert (order_key(partner, "order", 1) * len(shards.manifest.shards)) >> 64 == shard


@pytest.mark.parametrize(
    ("lengths", "entries", "heldout", "message"),
    [
        ([50] * 4, MLM, 1e-9, r"heldout.fraction 1e-09 selected none of"),
        (
            [1] * 40,
            [{"name": "document_rotation", "max_length": 40}],
            0.1,
            r"train set of document-38-none is empty.*too_short",
        ),
        ([50] * 4, None, 0.1, "add the key `corrupt`"),
    ],
)
def test_empty_sets_are_an_error(tmp_path, lengths, entries, heldout, message):
    write_token_set(tmp_path, lengths)
    with refused(message):
        run_stage(recipe(tmp_path, entries, heldout=heldout), "group")


# Documents
# --------------------------------------------------------------------------------------------------


def test_a_shard_without_documents_has_the_columns_of_a_full_one(tmp_path):
    write_token_set(tmp_path, [9], shards=2)
    none, some = sorted(
        (
            train_documents(SomeShards(open_shards(tmp_path / "encode"), (shard,)), 0.0, 1)
            for shard in (0, 1)
        ),
        key=len,
    )

    assert (len(none), len(some)) == (0, 1)

    types = [
        {name: values.dtype for name, values in rows.fixed.items()}
        | {name: column.values.dtype for name, column in rows.columns.items()}
        for rows in (none, some)
    ]

    assert types[0] == {name: types[1][name] for name in types[0]}
    assert set(none.columns) == {"token_ids", "sentence_starts"}


# Sample sets
# --------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.permutations(range(7)), st.integers(1, 7))
def test_sets_follow_from_the_objectives_in_any_order(order, count):
    """Each set serves its objectives: the smallest row is the smallest that any of them can use."""
    plain = [
        *MLM,
        *PAIRED[:2],
        {"name": "causal_lm", "max_length": 32},
        {"name": "masked_lm", "max_length": 20},
        {"name": "document_rotation", "max_length": 40},
        {"name": "sentence_reordering", "max_length": 40},
    ]

    chosen = [plain[index] for index in order[:count]]
    entries = recipe(
        Path("unused"), [{**entry, "label": str(n)} for n, entry in enumerate(chosen)]
    ).corrupt
    found = sample_sets(entries, WORDS)
    built = [entry.build(WORDS) for entry in entries]

    assert [one.label for one in found] == sorted({objective.grouping.label for objective in built})

    for one in found:
        minima = [objective.minimum for objective in built if objective.grouping.label == one.label]
        assert one.minimum.tokens == min(minimum.tokens for minimum in minima)
        assert one.minimum.sentences == min(minimum.sentences for minimum in minima)


def test_the_least_row_of_a_set_is_an_argument(tmp_path):
    write_token_set(tmp_path, LENGTHS)
    entries = [
        {"name": "document_rotation", "max_length": 40},
        {"name": "sentence_reordering", "max_length": 40},
    ]
    given = []

    for some in (entries, entries[1:]):
        work, _ = GroupStage(recipe(tmp_path, some)).passes()
        given.append(Describer().describe(next(iter(work.units.values()))))

    assert given[0] != given[1], "they follow the objectives"


def test_two_groupings_with_one_label_are_an_error():
    entries = recipe(
        Path("unused"),
        [
            {"name": "text_to_text", "label": str(number), "tasks": [{"source": source}]}
            for number, source in enumerate(("a/b", "a_b", "a_b"))
        ],
    ).corrupt

    assert len(sample_sets(entries[1:], WORDS)) == 1

    with refused(r"two groupings have the same label: parallel-"):
        sample_sets(entries, WORDS)
