"""Runs of a model whose tokens stop by themselves: the ponder cost is one mean, at every number of ranks."""

from pathlib import Path

import pytest
import torch

from clozeline.model.build import build_model
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.evaluation.heldout_score import heldout_score
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.startup.open_run import read_config
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import evaluations, start, steps
from tests.train.test_distillation_runs import NO_DROPOUT, losses

UNIVERSAL = ["model.layers=3", "model.share={groups: 1, universal: {epsilon: 0.2, ponder: 0.1}}", *NO_DROPOUT]
UNIVERSAL += ["model.init.std=0.5", "steps=3", "evaluate.max_rows=45"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("universal")
    write_config(folder / "train.yaml", write_masked_sets(folder / "sets"), folder / "run")
    return folder


def test_micro_batches_and_a_resume_change_nothing(folder: Path, one_rank: RankPool) -> None:
    outputs = {"whole": ["data.micro_batch=4"], "small": ["data.micro_batch=2"]}
    for output, words in outputs.items():
        assert one_rank.run(start, folder / "train.yaml", [*UNIVERSAL, *words, f"output={folder / output}"]) == [
            (0, "")
        ]
    for end in (1, 3):
        words = [*UNIVERSAL, "data.micro_batch=4", f"output={folder / 'parts'}", f"steps={end}"]
        assert one_rank.run(start, folder / "train.yaml", words) == [(0, "")]
    expected = losses(folder / "whole")
    assert [sorted(step) for step in expected] == [["masked_lm", "ponder"]] * 3
    assert losses(folder / "parts") == expected
    for step, other in zip(expected, losses(folder / "small"), strict=True):
        assert other == pytest.approx(step, rel=2e-6)
    first = steps(folder / "whole")[0]
    assert first["loss"] == first["losses"]["masked_lm"]
    assert 1 < first["figures"]["ponder/steps"] < 3
    assert first["figures"]["ponder/steps"] < first["losses"]["ponder"] <= first["figures"]["ponder/steps"] + 1
    heldout = evaluations(folder / "whole")[-1]
    assert first["total"] == pytest.approx(first["loss"] + 0.1 * first["losses"]["ponder"], rel=1e-12)
    assert heldout["total"] == pytest.approx(heldout["loss"] + 0.1 * heldout["figures"]["ponder"], rel=1e-12)
    assert {"ponder", "ponder/steps"} <= heldout["figures"].keys()
    # tools that score heads leave the ponder cost out
    model = build_model(read_config(folder / "whole").model, 50, {"pad": 0}).eval()
    model.load_state_dict(read_weights(*find_checkpoint(folder / "whole")), strict=False)  # tied weights once
    shards = open_shards(folder / "sets" / "heldout" / "manifest.json")
    name, score = heldout_score(model, shards)
    assert name == "nats"
    assert score == pytest.approx(heldout["loss"], rel=1e-5)
    assert torch.isfinite(model.family.stack.universal.halting.weight).all()
