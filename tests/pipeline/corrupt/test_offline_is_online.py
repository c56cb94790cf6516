"""Offline is online: variant k of a stored example is what the same kernel makes in epoch k, byte for byte.

Offline: the stage writes example shards. Online: only the manifests are known; blocks of the sample set are read in
another order, cut in other portions, and corrupted with variant = epoch. Nothing else may matter.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.rows import Row, Rows
from clozeline.pipeline.shards import ShardSet, open_shards
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set
from tests.registries import values_in_tests

NAMES = registry.names("clozeline.pipeline.corrupt.objectives")
EPOCHS = 3


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Every objective that is tested, with as many variants as epochs; every other one in tars."""
    out = tmp_path_factory.mktemp("sets")
    write_token_set(out, [(37 * document) % 80 for document in range(60)])
    made = recipe(out, [entry(name, place) for place, name in enumerate(values_in_tests(request, "name"))], heldout=0.0)
    for stage in ("group", "corrupt"):
        run_stage(made, stage)
    return out


def entry(name: str, place: int) -> dict[str, object]:
    fields = registry.find("clozeline.pipeline.corrupt.objectives", name).Options.__pydantic_fields__
    lengths = {key: 34 for key in ("max_length", "input_length") if key in fields}
    return {"name": name, "variants": EPOCHS, "container": ("arrow", "tar")[place % 2], "block_rows": 7, **lengths}


def stored(examples: ShardSet) -> list[dict[bytes, Row]]:
    """Examples of each variant by the sample that they are of."""
    found: list[dict[bytes, Row]] = [{} for _ in range(EPOCHS)]
    for block in range(len(examples.index)):
        for row in examples.read_block(block):
            found[int(row.fixed["variant"])][identity(row)] = row
    return found


def identity(row: Row) -> bytes:
    return b"".join(
        np.asarray(row.fixed[name]).tobytes() for name in ("uid", "document_uid", "document_offset", "copy")
    )


def online(objective: Objective, samples: ShardSet, epoch: int, seed: int) -> dict[bytes, Row]:
    """One epoch over the blocks, last one first, in portions of `epoch + 2` rows of a shuffled block."""
    found: dict[bytes, Row] = {}
    for block in reversed(range(len(samples.index))):
        rows = samples.read_block(block)
        order = np.argsort(rows.fixed["uid"] * np.uint64(0x9E3779B97F4A7C15))
        for start in range(0, len(order), epoch + 2):
            portion: Rows = rows.take(order[start : start + epoch + 2])
            examples, skips = objective.corrupt(portion, np.full(len(portion), epoch, np.uint16), seed)
            found |= {identity(row): row for row, skip in zip(examples, skips, strict=True) if not skip}
    return found


def same(first: Row, second: Row) -> bool:
    """Equal names, types, shapes and bytes."""

    def bytes_of(row: Row) -> list[tuple[str, str, tuple[int, ...], bytes]]:
        arrays = [*row.columns.items(), *((name, np.asarray(value)) for name, value in row.fixed.items())]
        return [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays]

    return bytes_of(first) == bytes_of(second)


@pytest.mark.parametrize("name", NAMES)
def test_variant_k_is_epoch_k(sets: Path, name: str) -> None:
    examples = open_shards(sets / "corrupt" / name / "train")
    facts = examples.manifest.objective
    assert facts is not None
    objective = build_objective({"name": facts.name, **facts.options}, WORDS, facts.label)
    samples = open_shards(sets / "group" / objective.grouping.label / "train")
    offline = stored(examples)
    assert sum(map(len, offline)) == len(examples)
    for epoch in range(EPOCHS):
        live = online(objective, samples, epoch, examples.manifest.seed)
        assert live.keys() == offline[epoch].keys()
        assert live
        assert [key for key, row in live.items() if not same(row, offline[epoch][key])] == []


@pytest.mark.parametrize("name", ["masked_lm"])
def test_variants_differ(sets: Path, name: str) -> None:
    """The test above would also pass if every epoch gave the same."""
    first, second, _ = stored(open_shards(sets / "corrupt" / name / "train"))
    assert [key for key, row in first.items() if np.array_equal(row["input_ids"], second[key]["input_ids"])] == []
