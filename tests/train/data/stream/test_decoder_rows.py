"""Rows of encoder-decoders whose documents are kept apart: from the stage's shards to losses and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.documents import attend_one_by_one
from clozeline.pipeline.rows import Ragged, Row
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.data.sets.model_fit import refuse_unread
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.stream import Stream
from tests.model.closeness import FLOAT32, assert_gradients_close
from tests.model.small_models import small_config
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set
from tests.shard_sets import roles_of

APART = {"grouping": "packed", "cross_documents": False}
ENTRIES: dict[str, dict[str, Any]] = {
    "span_corruption": {"name": "span_corruption", "input_length": 40, "noise_density": 0.4},
    "masked_encoder_decoder": {"name": "masked_encoder_decoder", "max_length": 40, "mask_rate": 0.4},
    "causal_lm": {"name": "causal_lm", "max_length": 40, "architecture": "encoder_decoder"},
}
BART: dict[str, Any] = {
    "norm": "layer", "norm_place": "post", "final_norm": False, "emb_norm": True, "qk_scale": None, "out_scale": False,
    "position": PositionConfig(kind="learned", maximum=64, offset=2),
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "t5": {},
    "t5 shared": {"layers": 2, "decoder_layers": 2, "share": ShareConfig(stacks=True)},
    "bart": BART,
    "bart shared": {**BART, "layers": 2, "decoder_layers": 2, "share": ShareConfig(stacks=True)},
    "sinusoidal": {**BART, "position": PositionConfig(kind="sinusoidal")},
    "rope": {**BART, "head_dim": 6, "position": PositionConfig(kind="rope")},
}
objectives = pytest.mark.parametrize("objective", ENTRIES)
PAIRS = [
    *((objective, shape) for objective in ENTRIES for shape in ("t5", "bart")),
    *(("span_corruption", shape) for shape in SHAPES if shape not in ("t5", "bart")),
]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of several short documents, some of which go on in the next row."""
    out = tmp_path_factory.mktemp("pairs")
    write_token_set(out, [2 + (7 * document) % 19 for document in range(60)])
    made = recipe(out, [entry | APART for entry in ENTRIES.values()])
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return out


def packed(chain: Path, objective: str) -> ShardSet:
    return open_shards(chain / "corrupt" / objective / "train")


def batches(shards: ShardSet, steps: int | None = None) -> Iterator[tuple[list[Row], Batch]]:
    """Micro-batches of 4 rows, of the first steps or an epoch, with the rows as they were stored."""
    options: Any = {"lanes": 4, "seed": 2, "global_batch": 4, "micro_batch": 4, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, **options) as stream:
        for _ in range(steps or stream.order.lane_rows):
            for batch in stream.next_step():
                yield [shards.read_block(b).row(r) for _, b, r in batch.origin.tolist() if b >= 0], batch


def network_of(shape: str) -> Model:
    torch.manual_seed(0)
    config = small_config("encoder_decoder", **({"type_vocab_size": 0} | SHAPES[shape]))
    return build_model(config, WORDS.size, WORDS.specials).eval()


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
    """The batch of one document: decoder inputs, places and labels by a loop."""
    frame = of.manifest.objective.frame  # type: ignore[union-attr]
    places = list(range(begin, begin + len(target)))
    if target:
        inputs = [source[begin - 1] if begin else frame.decoder_start, *target[:-1]]
        wanted = list(enumerate(target))
    else:
        known = dict(labels)
        inputs = [known.get(place - 1, WORDS.specials["mask"]) for place in range(len(source))]
        inputs[0], wanted, places = frame.decoder_start, labels, list(range(len(source)))
    return {
        "input_ids": torch.tensor([source]),
        "position_ids": torch.arange(len(source))[None],
        "lengths": torch.tensor([len(source)]),
        "row_weight": torch.ones(1),
        "decoder_input_ids": torch.tensor([inputs]),
        "decoder_position_ids": torch.tensor([places]),
        "label_index": torch.tensor([place for place, _ in wanted]),
        "label_ids": torch.tensor([label for _, label in wanted]),
    }


def gradients(model: Model, batches: list[dict[str, Tensor]]) -> tuple[float, dict[str, Tensor]]:
    """The summed loss and its gradients."""
    model.zero_grad()
    total = torch.zeros(())
    for tensors in batches:
        (loss,) = model(tensors).values()
        total = total + loss.total
    total.backward()  # type: ignore[no-untyped-call]
    return total.item(), {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(("objective", "shape"), PAIRS)
def test_documents_in_a_row_are_as_they_are_alone(chain: Path, objective: str, shape: str) -> None:
    """Loss and gradients of packed rows are those of each document as a row of its own."""
    shards, model, documents = packed(chain, objective), network_of(shape), 0
    for rows, batch in batches(shards, steps=1):
        singles = [alone(shards, *one) for row in rows for one in documents_of(row) if one[1] or one[3]]
        documents += len(singles)
        together, one_by_one = gradients(model, [batch.tensors]), gradients(model, singles)
        assert together[0] == pytest.approx(one_by_one[0], rel=1e-5)
        assert together[1].keys() == one_by_one[1].keys()
        for name, gradient in together[1].items():
            largest = gradient.abs().max().clamp(min=1)
            torch.testing.assert_close(gradient / largest, one_by_one[1][name] / largest, rtol=1e-5, atol=1e-5)
    assert documents > 6


@objectives
def test_bounds_give_the_loss_and_gradients_of_a_mask(
    chain: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, (_, batch) = network_of("bart"), next(batches(packed(chain, objective)))
    calls: list[Any] = []

    def count(*given: Any) -> Tensor:
        calls.append(given)
        return attend_one_by_one(*given)

    monkeypatch.setattr("clozeline.model.layers.attention.attend", count)
    masked, self_attention = gradients(model, [batch.tensors]), len(calls)
    monkeypatch.setattr("clozeline.model.layers.stack.reads_documents", lambda *_, **__: True)
    found = gradients(model, [batch.tensors])
    assert len(calls) == 2 * self_attention + 2 * model.config.decoder_depth
    assert found[0] == pytest.approx(masked[0], rel=1e-6)
    assert_gradients_close(found[1], masked[1], FLOAT32)


@objectives
@pytest.mark.parametrize("shape", ["t5", "bart"])
def test_no_gradient_reaches_another_document(chain: Path, objective: str, shape: str) -> None:
    """The states of a document depend on its own tokens of both sides, and on no other's, to the last bit."""
    model, compared = network_of(shape), 0
    (_, batch) = next(batches(packed(chain, objective)))
    tensors = batch.tensors
    looked_up: list[Tensor] = []  # the vectors of both sides, one beside the other

    def keep(_: object, given: tuple[Tensor], out: Tensor) -> Tensor:
        looked_up.append(out.detach().requires_grad_())
        return looked_up[-1]

    model.family.tokens.register_forward_hook(keep)
    states = model.family(tensors)
    sides = [(tensors[f"{side}document_ids"], tensors[f"{side}input_ids"]) for side in ("", "decoder_")]
    real = torch.arange(states.shape[1]) < tensors["decoder_lengths"][:, None]
    for row in range(4):
        for number in tensors["decoder_document_ids"][row][real[row]].unique().tolist():
            own = (tensors["decoder_document_ids"][row] == number) & real[row]
            (both,) = torch.autograd.grad(states[row, own].sin().sum(), looked_up, retain_graph=True)
            found = both.split([ids.shape[1] for _, ids in sides], dim=1)
            for (documents, _), gradient in zip(sides, found, strict=True):
                inside = torch.zeros_like(documents, dtype=torch.bool)
                inside[row] = documents[row] == number
                assert not gradient[~inside].any()
                # Padding after a row's last token has its last document's number.
                reached = gradient[row].abs().sum(1)[inside[row]]
                assert reached[0] > 0
                compared += int((reached > 0).sum())
    assert compared > 80


@objectives
def test_every_place_and_label_equals_a_slow_loop(chain: Path, objective: str) -> None:
    shards, documents = packed(chain, objective), 0
    for rows, batch in batches(shards):
        tensors, sizes = batch.tensors, [[0, 0]]
        columns = [tensors[f"{side}input_ids"].shape[1] for side in ("", "decoder_")]
        for b, row in enumerate(rows):
            at = {"": 0, "decoder_": 0}
            for number, one in enumerate(documents_of(row)):
                single = alone(shards, *one)
                for side, first in at.items():
                    size = single[f"{side}input_ids"].shape[1]
                    if side and not (one[1] or one[3] or "label_positions" in row.columns):
                        size = 0  # a document without noise has no target
                    for name in ("input_ids", "position_ids"):
                        found = tensors[f"{side}{name}"][b, first : first + size]
                        assert found.tolist() == single[f"{side}{name}"][0, :size].tolist()
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
        width = tensors["decoder_input_ids"].shape[1]
        ids = tensors["decoder_document_ids"].flatten()[tensors["label_index"]]
        assert len(ids) == len(wanted)
        assert (tensors["label_index"] // width < len(rows)).all()
    assert documents > 50


@objectives
def test_the_columns_are_read_or_kept_on_purpose(chain: Path, objective: str) -> None:
    manifest = packed(chain, objective).manifest
    refuse_unread(manifest, network_of("t5").config, [], "data.shards")


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
