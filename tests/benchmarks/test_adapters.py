"""Counted bytes of a small step with each adapter: by formula, and by hand for a part of the graph."""

from __future__ import annotations

import pytest

from benchmarks import adapters

SHAPE = adapters.Shape(dim=64, layers=2, rows=4, tokens=8, vocabulary=50)


def count_bytes(case: str) -> adapters.StepBytes:
    return adapters.count_bytes(adapters.build_case(case, SHAPE), adapters.random_batch(SHAPE))


@pytest.fixture(scope="module")
def found() -> dict[str, adapters.StepBytes]:
    return {case: count_bytes(case) for case in adapters.CASES}


def test_what_trains_is_by_formula(found: dict[str, adapters.StepBytes]) -> None:
    dim, layers = SHAPE.dim, SHAPE.layers
    assert found["LoRA r 8, q and v"].body == layers * 2 * 8 * (dim + dim)
    assert found["bottleneck 32"].body == layers * 2 * (2 * dim * 32 + 32 + dim)
    assert found["prefix 10"].body == layers * 2 * 10 * dim
    assert found["prompt 10"].body == 10 * dim
    assert found["frozen"].body == 0
    head = found["frozen"].trained
    assert found["full"].state == 12 * (found["full"].weights // 4)
    assert all(one.trained == one.body + head for one in found.values())


def test_what_is_saved(found: dict[str, adapters.StepBytes]) -> None:
    """A frozen body saves nothing of its layers; the more adapts them, the more is kept; LoRA is within the target."""
    saved = {case: one.saved for case, one in found.items()}
    hidden = SHAPE.rows * SHAPE.tokens * SHAPE.dim * 4
    assert saved["frozen"] < hidden < saved["LoRA r 8, q and v"] <= saved["LoRA r 8, all linear"] < 40 * hidden
    assert saved["LoRA r 8, q and v"] < saved["full"]
    for case in ("LoRA r 8, q and v", "LoRA r 8, all linear"):
        assert found[case].total <= adapters.TARGET * found["full"].total
    assert [count_bytes("full").saved for _ in range(2)] == [saved["full"]] * 2
