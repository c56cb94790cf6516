"""The words and numbers of the table of compressed models, and what their records say."""

import pytest
import torch

from clozeline.checksummed_json import add_checksum
from clozeline.errors import IntegrityError, NewerFormatError
from clozeline.extensions.compression import comparison
from clozeline.extensions.compression.comparison import (
    Latency,
    ModelRow,
    Score,
    Sizes,
    measure_latencies,
    measure_sizes,
    seeds_of,
)
from clozeline.extensions.compression.written_models import RECORD, find_claim
from clozeline.files import publish_json
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.model.small_models import FAMILIES, built
from tests.refusals import refused
from tests.train.written_runs import write_run

DENSE = Sizes(1000, 1000, 4000, 2e6)
SCORE = Score("accuracy", (0.5, 0.75))


@pytest.mark.parametrize(
    ("sizes", "own", "own_32", "words"),
    [
        (Sizes(500, 500, 2000, 1e6), 0.5, 1.0, "saves disk and time at batch 1"),
        (Sizes(1000, 1000, 4000, 1e6), 1.0, 0.95, "saves time at batch 32"),
        (Sizes(1000, 1000, 4000, 1e6), 1.06, 0.96, "saves nothing measurable, slower at batch 1"),
        (
            Sizes(1000, 500, 4000, 2e6),
            0.8,
            0.8,
            "saves nothing measurable: the processor multiplies zeros like any",
        ),
        (Sizes(1000, 1000, 1000, 2e6), 0.8, 0.8, "saves disk only"),
        (Sizes(1000, 1000, 1000, 2e6, integers=True), 1.0, 0.8, "saves disk and time at batch 32"),
        (Sizes(1000, 990, 1000, 2e6), 1.0, 0.97, "saves disk only"),
        (Sizes(1000, 991, 3990, 2e6), 0.99, 1.2, "saves nothing measurable"),
    ],
)
def test_a_row_says_what_it_saves(sizes, own, own_32, words):
    """Without fewer FLOPs or other kernels a lower latency is noise."""
    latencies = {1: Latency(own, 1.0), 32: Latency(own_32, 1.0)}
    saved = ModelRow(
        "small", sizes, DENSE, latencies, SCORE, SCORE, "heads: half (1905.10650)"
    ).savings
    assert saved.startswith(words) if "zeros" in words else saved == words


def test_a_seed_without_checkpoints_is_named(tmp_path):
    for seed in range(2):
        (tmp_path / f"seed-{seed}/checkpoints/step-00000001").mkdir(parents=True)
    (tmp_path / "seed-0.json").touch()
    assert [path.name for path in seeds_of(tmp_path)] == ["seed-0", "seed-1"]

    (tmp_path / "seed-1" / "checkpoints").rename(tmp_path / "lost")
    with refused("seed-1 has no checkpoint"):
        seeds_of(tmp_path)


def test_sizes_are_those_of_the_weights(shard_sets, tmp_path):
    model = write_run(tmp_path, shard_sets, [3], 3, model__vocab_multiple=128)
    count = sum(parameter.numel() for parameter in model.parameters())
    zeros = sum(int((parameter == 0).sum()) for parameter in model.parameters())
    sizes = measure_sizes(TrainedModel.open(tmp_path), 7)

    assert sizes[:3] == (count, count - zeros, 4 * count)
    assert sizes.flops == pytest.approx(model.flops(7) / 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_timed_in_turn_on_one_thread(monkeypatch, family):
    dense = built(family)
    small = built(family)
    calls = list[tuple[bool, int, int]]()
    threads = torch.get_num_threads()

    def compute(model, tensors):
        assert torch.get_num_threads() == 1
        calls.append((model is dense, *tensors["input_ids"].shape))

    monkeypatch.setattr(comparison, "compute_scores", compute)
    found = measure_latencies(dense, small, 5, 3)
    turns = [False, True, True, False] * 3  # each is the first every other time

    assert calls == [(dense, rows, 5) for rows in (1, 32) for dense in turns[:10]]
    assert found.keys() == {1, 32}
    assert torch.get_num_threads() == threads


WRITTEN = {
    "format": 1,
    "method": "layers",
    "options": {"keep": [0]},
    "claim": "less",
    "lines": [],
    "source": "runs/a",
}


def test_a_changed_or_newer_record_is_an_error(tmp_path):
    publish_json(tmp_path / RECORD, {**add_checksum(WRITTEN), "method": "heads"})
    with pytest.raises(IntegrityError, match="compress the model again"):
        find_claim(tmp_path)
    publish_json(tmp_path / RECORD, add_checksum({**WRITTEN, "format": 2}))
    with pytest.raises(NewerFormatError):
        find_claim(tmp_path)
