from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import IDS, PLACES, ROW, STARTS, UNDO, WEIGHT, Ragged, Role
from clozeline.train.data.stream.collate import Collate
from tests.shard_sets import TOKENIZER, objective, roles_of, toy_set, write_set

PAD, MASK, START = 0, 3, 4
SPECIAL = TOKENIZER["special_ids"]


def column(lists: Sequence[Sequence[int]]) -> Ragged:
    return Ragged.from_lists(lists, np.uint16)


def collated(architecture: Any, lists: dict[str, Any], weight: Sequence[float] | None = None, **options: Any) -> Any:
    rows = len(lists["input_ids"])
    columns = {name: column(values) for name, values in lists.items()}
    row_weight = np.ones(rows, np.float32) if weight is None else np.array(weight, np.float32)
    collate = Collate(architecture, roles_of(columns), SPECIAL, **options)
    tensors = collate({name: columns[name] for name in collate.columns}, row_weight)
    for name, tensor in tensors.items():
        assert tensor.dtype == {"row_weight": torch.float32, "cu_seqlens": torch.int32}.get(name, torch.int64)
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def test_masked_encoder() -> None:
    found = collated(
        "encoder",
        {"input_ids": [[1, 3, 7, 2], [1, 3, 2]], "label_positions": [[1, 2], [1]], "label_ids": [[9, 7], [8]]},
    )
    assert found == {
        "input_ids": [[1, 3, 7, 2], [1, 3, 2, PAD]],
        "position_ids": [[0, 1, 2, 3]] * 2,
        "lengths": [4, 3],
        "row_weight": [1.0, 1.0],
        "label_index": [1, 2, 5],
        "label_ids": [9, 7, 8],
    }


def test_decoder_predicts_the_next_token() -> None:
    found = collated("decoder", {"input_ids": [[5, 6, 7], [8, 9], []]}, [1, 1, 0])
    assert found["input_ids"] == [[5, 6, 7], [8, 9, PAD], [PAD] * 3]
    assert found["lengths"] == [3, 2, 1]
    assert found["label_index"] == [0, 1, 3]
    assert found["label_ids"] == [6, 7, 9]
    assert found["row_weight"] == [1, 1, 0]


def test_prefix_has_no_labels() -> None:
    found = collated(
        "decoder", {"input_ids": [[5, 6, 7, 8], [5, 6, 7], []], "prefix_length": [[3], [0], []]}, [1, 1, 0]
    )
    assert found["prefix_length"] == [3, 0, 0]
    assert found["label_index"] == [2, 4, 5]
    assert found["label_ids"] == [8, 6, 7]


def test_the_same_labels_may_be_stored_where_the_row_is_read_from_left_to_right() -> None:
    rows = [[5, 6, 7, 8], [5, 6, 7]]
    prefixed = collated("decoder", {"input_ids": rows, "prefix_length": [[3], [1]]})
    stored = {"input_ids": rows, "label_positions": [[3], [1, 2]], "label_ids": [[8], [6, 7]]}
    found = collated("decoder", stored, predict_from="previous")
    assert found == {name: value for name, value in prefixed.items() if name != "prefix_length"}


def test_documents_apart() -> None:
    lists = {"input_ids": [[5, 6, 7, 8, 9], [5, 6]], "document_starts": [[0, 3], [0]]}
    found = collated("decoder", lists)
    assert found["document_ids"] == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    assert found["position_ids"] == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]
    assert found["label_index"] == [0, 1, 3, 5]
    assert found["label_ids"] == [6, 7, 9, 6]
    assert found["cu_seqlens"] == [0, 3, 5, 7, 10], "the second row's three pads are a document of their own"
    assert found["max_seqlen"] == 3


def test_segments() -> None:
    found = collated("encoder", {"input_ids": [[1, 5, 2, 6, 2], [1, 5, 2]], "segment_starts": [[0, 3], [0, 3]]})
    assert found["type_ids"] == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]


def test_encoder_decoder_shifts_the_target() -> None:
    found = collated(
        "encoder_decoder",
        {"input_ids": [[7, 8], [7], []], "target_ids": [[10, 11, 5], [12, 5], []]},
        [1, 1, 0],
        decoder_start=START,
    )
    assert found["decoder_input_ids"] == [[START, 10, 11], [START, 12, PAD], [PAD] * 3]
    assert found["decoder_position_ids"] == [[0, 1, 2]] * 3
    assert found["decoder_lengths"] == [3, 2, 1]
    assert found["label_index"] == [0, 1, 2, 3, 4]
    assert found["label_ids"] == [10, 11, 5, 12, 5]
    assert found["input_ids"] == [[7, 8], [7, PAD], [PAD, PAD]]


def test_a_fragment_keeps_its_places_and_is_opened_by_the_token_before_it() -> None:
    """`[CLS] The kitten [MASK] [MASK] [MASK] ball [SEP]`, a fragment after [CLS], a row without one, and filler."""
    found = collated(
        "encoder_decoder",
        {
            "input_ids": [[1, 20, 21, MASK, MASK, MASK, 25, 2], [1, MASK, 31, 2], [7, 8], []],
            "target_ids": [[22, 23, 24], [30], [10, 11], []],
            "target_start": [[3], [1], [], []],
        },
        [1, 1, 1, 0],
        decoder_start=START,
    )
    assert found["decoder_input_ids"] == [[21, 22, 23], [1, PAD, PAD], [START, 10, PAD], [PAD] * 3]
    assert found["decoder_position_ids"] == [[3, 4, 5], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found["decoder_lengths"] == [3, 1, 2, 1]
    assert found["label_index"] == [0, 1, 2, 3, 6, 7]
    assert found["label_ids"] == [22, 23, 24, 30, 10, 11]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=1, max_size=5), st.data())
def test_fragments_equal_a_slow_loop(lengths: list[int], data: st.DataObject) -> None:
    """Decoder token j of a fragment at s reads source token s + j - 1, predicts s + j, and is at place s + j."""
    originals = [data.draw(st.lists(st.integers(5, 60000), min_size=n, max_size=n)) for n in lengths]
    starts = [data.draw(st.integers(1, n - 1)) for n in lengths]
    sizes = [data.draw(st.integers(1, n - s)) for n, s in zip(lengths, starts, strict=True)]
    bounds = [(s, s + k) for s, k in zip(starts, sizes, strict=True)]
    masked = [
        [MASK if s <= i < e else t for i, t in enumerate(row)] for row, (s, e) in zip(originals, bounds, strict=True)
    ]
    targets = [row[s:e] for row, (s, e) in zip(originals, bounds, strict=True)]
    lists = {"input_ids": masked, "target_ids": targets, "target_start": [[s] for s in starts]}
    found = collated("encoder_decoder", lists, decoder_start=START)
    for b, (row, (s, e)) in enumerate(zip(originals, bounds, strict=True)):
        for j in range(max(sizes)):
            inside = s + j < e
            assert found["decoder_input_ids"][b][j] == (row[s + j - 1] if inside else PAD)
            assert found["decoder_position_ids"][b][j] == (s + j if inside else 0)
    width = max(sizes)
    assert found["label_index"] == [b * width + j for b, k in enumerate(sizes) for j in range(k)]
    assert found["label_ids"] == [token for target in targets for token in target]


MODES = {"bidirectional": 0, "left_to_right": 1, "right_to_left": 2, "prefix": 3}


def may_read(mode: int, prefix: int, length: int, i: int, j: int) -> bool:
    """Return whether place i reads place j."""
    if i == j:
        return True
    if j >= length:
        return False
    return [True, j <= i, j >= i, j <= i or j < prefix][mode]


def attention_of(tensors: Any) -> Any:
    """[B][T][T]: what an encoder lets each place read."""
    from clozeline.model.layers.masks import mode_mask, padding_mask, plan_attention

    width = tensors["input_ids"].shape[1]
    padding = padding_mask(tensors["lengths"], width, torch.device("cpu"))
    pairs = mode_mask(tensors["attention"], tensors["prefix_length"], width)
    mask = plan_attention(None, padding, causal=False, pairs=pairs).mask
    assert mask is not None
    return mask[:, 0].tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(range(4)), st.integers(1, 9)), min_size=1, max_size=6), st.data())
def test_masks_of_attention_modes_equal_a_slow_loop(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    prefixes = [data.draw(st.integers(1, length)) if mode == MODES["prefix"] else 0 for mode, length in rows]
    lists = {"input_ids": [[7] * length for _, length in rows], "prefix_length": [[p] for p in prefixes]}
    lists |= {"attention": [[mode] if mode else [] for mode, _ in rows]}  # a part of a mixture may leave it out
    columns = {name: column(values) for name, values in lists.items()}
    tensors = Collate("encoder", roles_of(columns), SPECIAL)(columns, None)
    width = max(length for _, length in rows)
    for (mode, length), prefix, found, types in zip(
        rows, prefixes, attention_of(tensors), tensors["type_ids"].tolist(), strict=True
    ):
        assert found == [[may_read(mode, prefix, length, i, j) for j in range(width)] for i in range(width)]
        told = [{0: 0, 1: 2, 2: 3, 3: 4 + (i >= prefix)}[mode] if i < length else 0 for i in range(width)]
        assert types == told


def test_segments_are_told_apart_in_bidirectional_rows_only() -> None:
    lists = {"input_ids": [[1, 5, 2, 6], [1, 5, 2, 6]], "segment_starts": [[0, 3], []], "attention": [[], [1]]}
    found = collated("encoder", lists | {"prefix_length": [[], [0]]})
    assert found["type_ids"] == [[0, 0, 0, 1], [2, 2, 2, 2]]
    assert found["segment_ids"] == [[0, 0, 0, 1], [0, 0, 0, 0]], "for a table that holds segments alone"


@pytest.mark.parametrize("mode", MODES)
def test_the_mask_of_what_the_objective_stored(mode: str) -> None:
    """From corrupted rows to the mask; labels and masked rows are those of bidirectional rows."""
    from tests.pipeline.corrupt.objectives.runner import corrupt, wide
    from tests.pipeline.corruption_cases import samples, vocabulary

    rows = samples([9, 4, 2], vocabulary())
    plain = corrupt(wide("masked_lm", vocabulary()), rows)
    examples = corrupt(wide("masked_lm", vocabulary(), attention=mode), rows)
    for name, ragged in plain.columns.items():
        assert examples.columns[name].values.tolist() == ragged.values.tolist()
    if mode == "bidirectional":
        assert examples.columns.keys() == plain.columns.keys()
        return
    tensors = Collate("encoder", roles_of(examples.columns), SPECIAL)(dict(examples.columns), None)
    for found, length, prefix in zip(attention_of(tensors), (11, 6, 4), tensors["prefix_length"].tolist(), strict=True):
        assert (prefix > 0) == (mode == "prefix")
        assert found == [[may_read(MODES[mode], prefix, length, i, j) for j in range(11)] for i in range(11)]


def test_masked_encoder_decoder_reads_the_label_before() -> None:
    """`The puppies are [MASK] outside [MASK] house .` between [CLS] and [SEP]: places 5 and 7 read a label."""
    found = collated(
        "encoder_decoder",
        {
            "input_ids": [[1, 20, 21, 22, MASK, 24, MASK, 26, 27, 2], []],
            "label_positions": [[4, 6], []],
            "label_ids": [[23, 25], []],
        },
        [1, 0],
        decoder_start=START,
    )
    assert found["decoder_input_ids"][0] == [START, MASK, MASK, MASK, MASK, 23, MASK, 25, MASK, MASK]
    assert found["decoder_input_ids"][1] == [PAD] * 10
    assert found["label_index"] == [4, 6]
    assert found["label_ids"] == [23, 25]
    assert found["decoder_lengths"] == [10, 1]


def test_only_filler() -> None:
    found = collated("encoder_decoder", {"input_ids": [[], []], "target_ids": [[], []]}, [0, 0], decoder_start=START)
    assert found["input_ids"] == found["decoder_input_ids"] == [[PAD], [PAD]]
    assert found["lengths"] == found["decoder_lengths"] == [1, 1]
    assert found["label_index"] == found["label_ids"] == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(1, 60000), max_size=9), min_size=1, max_size=6), st.data())
def test_decoder_equals_a_slow_one(rows: list[list[int]], data: st.DataObject) -> None:
    prefix = [data.draw(st.integers(0, max(len(row), 1))) for row in rows]
    starts = [[0, data.draw(st.integers(1, len(row) - 1))] if len(row) > 1 else [0] * bool(row) for row in rows]
    found = collated("decoder", {"input_ids": rows, "prefix_length": [[p] for p in prefix], "document_starts": starts})
    width = max([1, *map(len, rows)])
    index, ids = [], []
    for b, row in enumerate(rows):
        for i in range(max(1, prefix[b]), len(row)):
            if i not in starts[b]:
                index.append(b * width + i - 1)
                ids.append(row[i])
    assert (found["label_index"], found["label_ids"]) == (index, ids)
    bounds = [b * width + place for b, row in enumerate(rows) for place in sorted({0, *starts[b], len(row)} - {width})]
    assert found["cu_seqlens"] == [*bounds, len(rows) * width]
    assert found["input_ids"] == [[*row, *[PAD] * (width - len(row))] for row in rows]


def test_configured_by_the_manifest(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [3], objective=objective("decoder"))
    collate = Collate.from_manifest(shards.manifest)
    assert (collate.architecture, collate.columns) == ("decoder", ("input_ids",))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("encoder", ["label_ids"], SPECIAL), {}, "input_ids"),
        (("encoder", ["input_ids"], {"eos": 1}), {}, r"'pad', the tokenizer of the shards has: eos; .*specials='{pad"),
        (("decoder", ["input_ids"], SPECIAL), {"padding_side": "left"}, "rows of a decoder .* right only"),
        (("encoder_decoder", ["input_ids", "target_ids"], SPECIAL), {}, "decoder_start"),
        (("encoder_decoder", ["input_ids"], SPECIAL), {"decoder_start": 4}, "target_ids"),
    ],
)
def test_what_cannot_be_collated_is_refused(arguments: Any, options: dict[str, Any], message: str) -> None:
    architecture, columns, special = arguments
    with pytest.raises(ConfigurationError, match=message):
        Collate(architecture, roles_of(columns), special, **options)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_column_without_a_rule_becomes_a_tensor_as_its_role_says(side: str) -> None:
    """Rows of four and two tokens, and filler; positions move with rows that are padded on the left."""
    roles = {
        "input_ids": IDS, "kept": UNDO, "label_positions": PLACES, "label_ids": Role("label", "label_positions"),
        "kind": Role("row", head="mine"), "mode": ROW, "score": Role("row", head="mine", fraction=True),
        "share": WEIGHT, "rated": Role("label", "at", fraction=True),
        "at": PLACES, "grade": Role("label", "at"), "part": STARTS, "other": Role("ids", head="mine"),
        "inside": Role("position", "other"),
    }  # fmt: skip
    lists = {"input_ids": [[5, 6, 7, 8], [5, 6], []], "label_positions": [[1], [0], []], "label_ids": [[9], [9], []],
             "kind": [[2], [], []], "mode": [[3], [1], []], "at": [[0, 3], [1], []], "grade": [[4, 5], [6], []],
             "part": [[0, 2], [0], []], "other": [[8, 9], [], [7, 7, 7]], "inside": [[1], [], [2]]}  # fmt: skip
    columns = {name: column(rows) for name, rows in lists.items()}
    columns |= {name: Ragged.from_lists([[0.5], [], []], np.float32) for name in ("score", "share")}
    columns["rated"] = Ragged.from_lists([[0.5, 2], [1.5], []], np.float32)
    collate = Collate("encoder", roles, SPECIAL, padding_side=side)
    found = collate(columns, np.array([1, 1, 0], np.float32))
    assert "kept" not in found
    assert (found["kind"].tolist(), found["mode"].tolist()) == ([2, -100, -100], [3, 1, 0])
    assert found["score"].isnan().tolist() == [False, True, True]
    assert found["share"].tolist() == [0.5, 1, 1]
    assert (found["grade"].tolist(), found["rated"].tolist()) == ([4, 5, 6], [0.5, 2, 1.5])
    assert found["part"].tolist() == [[0, 0, 1, 1], [0] * 4, [0] * 4]
    assert found["other"].tolist() == [[8, 9, PAD], [PAD] * 3, [7, 7, 7]]
    assert found["lengths_other"].tolist() == [2, 0, 3]
    assert found["inside"].tolist() == [1, 8]
    assert found["input_ids"].reshape(-1)[found["at"]].tolist() == [5, 8, 6]
    # a batch of sets that have none of these columns
    none = {name: column([[], [], []]) for name in columns} | {"input_ids": columns["input_ids"]}
    without = collate(none, None)
    assert {name: tensor.dtype for name, tensor in without.items()} == {name: one.dtype for name, one in found.items()}
    assert without["score"].isnan().all()


def test_the_side_of_the_padding_is_that_of_the_manifest(tmp_path: Path) -> None:
    facts = objective("encoder")
    facts["frame"]["padding_side"] = "left"
    left, right = (
        write_set(tmp_path / side, [], objective=one).manifest
        for side, one in (("left", facts), ("right", objective("encoder")))
    )
    found = Collate.from_manifest(left)({"input_ids": column([[5, 6, 2], [7, 2]])}, None)
    assert found["left_padding"].tolist() == [0, 1]
    with pytest.raises(ConfigurationError, match=r"differ in .* padding.*: encoder padded on the left and encoder"):
        Collate.from_manifests([left, right])


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_order_of_prediction(side: str) -> None:
    """Rows of five, three and no tokens (filler); places 3, 0 and 1 of the first are predicted in this order."""
    lists = {"input_ids": [[5, 6, 7, 8, 9], [10, 11, 12], []], "prediction_order": [[3, 0, 1], [1], []]}
    found = collated("encoder", lists, [1, 1, 0], padding_side=side)
    assert found["label_ids"] == [8, 5, 6, 11]
    if side == "right":
        assert found["rank"] == [[2, 3, 0, 1, 0], [0, 1, 0, 0, 0], [0] * 5]
        assert found["label_index"] == [3, 0, 1, 6]
    else:
        assert found["rank"] == [[2, 3, 0, 1, 0], [0, 0, 0, 1, 0], [0] * 5]
        assert found["label_index"] == [3, 0, 1, 8]
        assert found["left_padding"] == [0, 2, 4]
    assert [found["input_ids"][index // 5][index % 5] for index in found["label_index"]] == found["label_ids"]


def test_an_order_beside_masked_rows() -> None:
    """Rows of another objective have labels and no order: they are context, labels are in the order of places."""
    ordered, masked = (Collate("encoder", roles_of(["input_ids", *more]), SPECIAL) for more in
                       (["prediction_order"], ["label_positions", "label_ids"]))  # fmt: skip
    merged = copy(ordered)
    merged._parts = (ordered, masked)
    lists = {"input_ids": [[5, 6, 7], [5, 4, 7]], "prediction_order": [[2, 0], []], "label_positions": [[], [1]],
             "label_ids": [[], [6]]}  # fmt: skip
    found = merged({name: column(rows) for name, rows in lists.items()}, None, np.array([0, 1]))
    assert found["rank"].tolist() == [[2, 0, 1], [0, 0, 0]]
    assert found["label_index"].tolist() == [0, 2, 4]
    assert found["label_ids"].tolist() == [5, 7, 6]


@pytest.mark.parametrize("family", ["decoder", "encoder"])
@pytest.mark.parametrize("kind", ["learned", "rope", "t5"])
def test_no_attention_and_no_position_leaks_across_documents(family: str, kind: str) -> None:
    """A packed row gives each document the states it has alone; changing one leaves the others' bits as they are."""
    from clozeline.model.build import build_model
    from clozeline.model.configuration.position import PositionConfig
    from tests.model.small_models import small_config

    if (family, kind) == ("encoder", "rope"):
        pytest.skip("encoders have learned or relative positions")
    torch.manual_seed(0)
    position = PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9)
    model: Any = build_model(small_config(family, position=position), 37, {"pad": 0}).eval()
    documents = [[5, 6, 7, 8], [9, 10, 11], [12, 13, 14, 15, 16]]

    def states(rows: list[list[list[int]]]) -> Any:
        flat = [[token for document in row for token in document] for row in rows]
        starts = [np.cumsum([0, *map(len, row[:-1])]).tolist() for row in rows]
        columns = {"input_ids": column(flat), "document_starts": column(starts)}
        collate = Collate(family, roles_of(columns), SPECIAL)  # type: ignore[arg-type]
        with torch.no_grad():
            return model.family(collate({name: columns[name] for name in collate.columns}, None))

    packed = states([documents, [[20, 21, 22]]])
    for number, document in enumerate(documents):
        first = sum(map(len, documents[:number]))
        alone = states([[document]])[0]
        assert torch.allclose(packed[0, first : first + len(document)], alone, atol=1e-5)
        changed = [[(token + 1 if n == number else token) for token in other] for n, other in enumerate(documents)]
        after = states([changed, [[20, 21, 22]]])
        same = (after[0, :12] == packed[0, :12]).all(-1)
        assert same.tolist() == [not first <= place < first + len(document) for place in range(12)] or (
            family == "decoder" and same[:first].all() and same[first + len(document) :].all()
        )
