"""Sizes and latencies against numbers written out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from clozeline.model.build import Model
from clozeline.model.families import Family
from clozeline.model.heads._head import VocabularyHead
from clozeline.tools.models.compression import measurements
from clozeline.tools.models.compression.measurements import measure_latencies, measure_sizes, random_batch
from clozeline.train.startup.open_run import open_run
from tests.model.small_models import FAMILIES, built
from tests.train.written_runs import write_run


def test_sizes_are_those_of_the_weights(shard_sets: Path, tmp_path: Path) -> None:
    model = write_run(tmp_path, shard_sets, [3], 3, model__vocab_multiple=128)
    count = sum(parameter.numel() for parameter in model.parameters())
    zeros = sum(int((parameter == 0).sum()) for parameter in model.parameters())
    sizes = measure_sizes(open_run(tmp_path), 7)
    assert sizes[:3] == (count, count - zeros, 4 * count)
    assert sizes.flops == pytest.approx(model.flops(7) / 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_timed_in_turn_on_one_thread(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    dense, small, calls = built(family), built(family), list[tuple[bool, int, int]]()
    threads = torch.get_num_threads()

    def compute(model: Model, tensors: dict[str, torch.Tensor]) -> None:
        assert torch.get_num_threads() == 1
        calls.append((model is dense, *tensors["input_ids"].shape))

    monkeypatch.setattr(measurements, "compute_scores", compute)
    found = measure_latencies(dense, small, 5, 3)
    turns = [False, True, True, False] * 3  # each is the first every other time
    assert calls == [(dense, rows, 5) for rows in (1, 32) for dense in turns[:10]]
    assert found.keys() == {1, 32}
    assert torch.get_num_threads() == threads


def test_the_median_of_the_timed_passes_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock says 9 s for each of two warm-up passes, then 1, 5 and 2 s for the model, 4 s for the dense one."""
    dense, small = built("encoder"), built("encoder")
    durations = [9.0, 9.0, 9.0, 9.0, 1.0, 4.0, 5.0, 4.0, 2.0, 4.0]
    ticks = iter([tick for duration in durations * 2 for tick in (0.0, duration)])
    starts = {"warm": 0}

    def clock() -> float:
        # warm-up passes read the clock once, at their start
        starts["warm"] += 1
        return next(ticks)

    monkeypatch.setattr(measurements.time, "perf_counter", clock)
    monkeypatch.setattr(measurements, "_WARMUP", 0)
    monkeypatch.setattr(measurements, "compute_scores", lambda *_: None)
    found = measure_latencies(dense, small, 5, 5)
    # in turn: 9 9 | 9 9 | 1 4 | 4 5 | 2 4 for the model and the dense one
    assert found[1] == (4.0, 5.0)
    assert starts["warm"] == 40


@pytest.mark.parametrize("family", FAMILIES)
def test_random_rows_are_read_by_every_family(family: str) -> None:
    model = built(family).eval()
    assert isinstance(model.family, Family)
    batch = random_batch(model, 3, 5)
    with torch.no_grad():
        (scores,) = model.logits(batch).values()
    assert scores.shape[:2] == (3, 5)
    assert torch.equal(batch["input_ids"], random_batch(model, 3, 5)["input_ids"])


def test_rows_fit_into_the_position_table(shard_sets: Path, tmp_path: Path) -> None:
    write_run(tmp_path, shard_sets, [3], 1)
    model = open_run(tmp_path).model
    assert model.position_limit == 64
    assert measure_latencies(model, model, 128, 1).keys() == {1, 32}


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """7 rows of 5 positions, of which the scores of two fit: what the head gives in parts is what it gives at once."""
    model = built(family).eval()
    batch = random_batch(model, 7, 5)
    ((name, head),) = model.heads.items()
    parts, logits = list[torch.Tensor](), type(head).logits

    def record(self: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        parts.append(logits(head, hidden))
        return parts[-1]

    with torch.no_grad():
        expected = model.logits(batch)[name]
        monkeypatch.setattr(measurements, "_SCORES", 11 * model.vocab_size)
        monkeypatch.setattr(type(head), "logits", record)
        measurements.compute_scores(model, batch)
    assert [len(part) for part in parts] == ([2, 2, 2, 1] if isinstance(head, VocabularyHead) else [7])
    assert torch.allclose(torch.cat(parts), expected, atol=1e-6)
