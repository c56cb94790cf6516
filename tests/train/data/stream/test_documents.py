"""Packed rows whose documents are kept apart, from the stage's shards to the model."""

from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged, Row
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.collate import Collate
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set
from tests.shard_sets import roles_of
from tests.train.data.stream.streams import open_stream

APART = {"grouping": "packed", "cross_documents": False}
ENTRIES: dict[str, dict[str, Any]] = {
    "decoder": {"name": "causal_lm", "max_length": 24},
    "encoder": {"name": "masked_lm", "max_length": 24},
    "spans": {"name": "span_corruption", "input_length": 40, "noise_density": 0.4},
    "masked": {"name": "masked_encoder_decoder", "max_length": 40, "mask_rate": 0.4},
    "continued": {"name": "causal_lm", "max_length": 40, "architecture": "encoder_decoder", "label": "continued"},
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of several short documents, some of which go on in the next row."""
    out = tmp_path_factory.mktemp("packed")
    write_token_set(out, [1 + (7 * document) % 19 for document in range(91)])
    made = recipe(out, [entry | APART for entry in ENTRIES.values()])
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return out


def packed(chain: Path, name: str) -> ShardSet:
    entry = ENTRIES[name]
    return open_shards(chain / "corrupt" / entry.get("label", entry["name"]) / "train")


def batches(shards: ShardSet) -> Iterator[tuple[list[Row], Batch]]:
    """Micro-batches of 4 rows over an epoch, filler at its end included, with the rows as they were stored."""
    lanes = next(lanes for lanes in (8, 12, 20) if len(shards) % lanes)
    with open_stream(shards, lanes=lanes, global_batch=lanes, micro_batch=4) as stream:
        for _ in range(stream.order.lane_rows):
            for batch in stream.next_step():
                yield [shards.read_block(b).row(r) for _, b, r in batch.origin.tolist() if b >= 0], batch


@pytest.mark.parametrize("family", ["decoder", "encoder"])
def test_bounds_positions_and_labels_equal_a_slow_loop(chain: Path, family: str) -> None:
    seen = filler = 0
    for rows, batch in batches(packed(chain, family)):
        found = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
        width = len(found["input_ids"][0])
        bounds, labels = [], []
        for b in range(4):
            row = rows[b] if b < len(rows) else None
            length = 0 if row is None else len(row["input_ids"])
            starts = [] if row is None else row["document_starts"].tolist()
            bounds += [b * width + place for place in sorted({0, *starts, length} - {width})]
            for number, (first, end) in enumerate(pairwise([*starts, length])):
                assert found["document_ids"][b][first:end] == [number] * (end - first)
                assert found["position_ids"][b][first:end] == list(range(end - first))
                if family == "decoder":  # each token but a document's first is predicted, by the one before it
                    labels += [(b * width + i - 1, int(row["input_ids"][i])) for i in range(first + 1, end)]  # type: ignore[index]
            if family == "encoder" and row is not None:
                places = row["label_positions"].tolist()
                labels += [(b * width + i, j) for i, j in zip(places, row["label_ids"].tolist(), strict=True)]
            seen, filler = seen + len(starts), filler + (row is None)
        assert list(zip(found["label_index"], found["label_ids"], strict=True)) == labels
        bounds.append(4 * width)
        assert found["cu_seqlens"] == bounds
        assert found["max_seqlen"] == max(b - a for a, b in pairwise(bounds))
    assert seen > 100
    assert filler


def documents_of(row: Row) -> list[tuple[list[int], list[int], int, list[tuple[int, int]]]]:
    """Input, target, first target place in the source, and (place, label) of masked places, of each document."""
    found = []
    starts = [*row["document_starts"].tolist(), len(row["input_ids"])]
    target = row.columns.get("target_ids", ())
    stops = [*row.columns.get("target_document_starts", [0] * (len(starts) - 1)), len(target)]
    for number, (first, end) in enumerate(pairwise(starts)):
        wanted = [int(one) for one in target[stops[number] : stops[number + 1]]]
        begin = int(row["target_start"][number]) - first if "target_start" in row.columns else 0
        labels = []
        if "label_positions" in row.columns:
            pairs = zip(row["label_positions"].tolist(), row["label_ids"].tolist(), strict=True)
            labels = [(place - first, label) for place, label in pairs if first <= place < end]
        found.append((row["input_ids"][first:end].tolist(), wanted, begin, labels))
    return found


def alone(of: ShardSet, source: list[int], target: list[int], begin: int, labels: list[tuple[int, int]]) -> Any:
    """Ids and positions of both sides of one document, by a loop."""
    start, own = of.manifest.objective.frame.decoder_start, list(range(len(source)))  # type: ignore[union-attr]
    if target:
        inputs = [source[begin - 1] if begin else start, *target[:-1]]
        return {"": (source, own), "decoder_": (inputs, list(range(begin, begin + len(target))))}
    known = dict(labels)
    inputs = [start, *(known.get(place, WORDS.specials["mask"]) for place in own[:-1])]
    return {"": (source, own), "decoder_": (inputs, own)}


@pytest.mark.parametrize("name", ["spans", "masked", "continued"])
def test_every_place_and_label_of_both_sides_equals_a_slow_loop(chain: Path, name: str) -> None:
    shards, documents = packed(chain, name), 0
    for rows, batch in batches(shards):
        tensors, sizes = batch.tensors, [[0, 0]]
        columns = [tensors[f"{side}input_ids"].shape[1] for side in ("", "decoder_")]
        for b, row in enumerate(rows):
            at = {"": 0, "decoder_": 0}
            for number, one in enumerate(documents_of(row)):
                for side, (ids, positions) in alone(shards, *one).items():
                    first, size = at[side], len(ids)
                    if side and not (one[1] or one[3] or "label_positions" in row.columns):
                        size = 0  # a document without noise has no target
                    found = (tensors[f"{side}{key}"][b, first : first + size] for key in ("input_ids", "position_ids"))
                    assert [part.tolist() for part in found] == [ids[:size], positions[:size]]
                    assert set(tensors[f"{side}document_ids"][b, first : first + size].tolist()) <= {number}
                    at[side] += size
                documents += 1
                sizes.append([len(one[0]), size])
            sizes[-1][1] += columns[1] - at["decoder_"]
            sizes.append([columns[0] - at[""], 0])
            assert at["decoder_"] == int(tensors["decoder_lengths"][b])
        for _ in range(4 - len(rows)):  # filler: a token that its target reads
            sizes += [[1, columns[1]], [columns[0] - 1, 0]]
        kept = np.cumsum([pair for n, pair in enumerate(sizes) if any(pair) or not n], axis=0)
        assert tensors["cu_seqlens"].tolist() == kept[:, 0].tolist()
        assert tensors["decoder_cu_seqlens"].tolist() == kept[:, 1].tolist()
        assert tensors["decoder_max_seqlen"] == np.diff(kept[:, 1]).max()
        wanted = [label for row in rows for one in documents_of(row) for label in one[1] or [x for _, x in one[3]]]
        assert tensors["label_ids"].tolist() == wanted
        assert len(tensors["label_index"]) == len(wanted)
    assert documents > 50


def test_sets_with_and_without_isolation_share_a_batch() -> None:
    """A row whose fragments are of two documents, one whose fragment is of the whole row, and one of spans."""
    names = ["input_ids", "target_ids", "target_start", "document_starts", "target_document_starts"]
    special = {"pad": 0, "mask": 3}
    fragments, whole, spans = (
        Collate("encoder_decoder", roles_of(chosen), special, decoder_start=1)
        for chosen in (names, names[:3], [*names[:2], *names[3:]])
    )
    merged = copy(fragments)
    merged._parts = (fragments, whole, spans)
    lists = {
        "input_ids": [[1, 5, 3, 3, 8, 9, 2], [1, 5, 6, 3, 3, 9, 2], [5, 20, 8, 21]],
        "target_ids": [[6, 7, 8], [7, 8], [20, 6, 21, 9]],
        "target_start": [[2, 4], [3], []],
        "document_starts": [[0, 4], [], [0, 2]],
        "target_document_starts": [[0, 2], [], [0, 2]],
    }
    columns = {name: Ragged.from_lists(rows, np.uint16) for name, rows in lists.items()}
    found = {name: one.tolist() for name, one in merged(columns, None, np.array([0, 1, 2])).items()}
    assert found["decoder_input_ids"] == [[5, 6, 1, 0], [6, 7, 0, 0], [1, 20, 1, 21]]
    assert found["decoder_position_ids"] == [[2, 3, 0, 0], [3, 4, 0, 0], [0, 1, 0, 1]]
    assert [row[:size] for row, size in zip(found["decoder_document_ids"], [3, 2, 4], strict=True)] == [
        [0, 0, 1], [0, 0], [0, 0, 1, 1]]  # fmt: skip
