"""Fine-tuning runs: classes learnt from a task's sets, evaluated on its other split, resumed to the bit."""

from pathlib import Path

import pytest

from clozeline.train.checkpoint.format import steps_in
from clozeline.train.startup.open_run import read_config
from tests.distributed import RankPool
from tests.pipeline.task_files import make_sets
from tests.train.masked_set import write_config
from tests.train.runs import evaluations, logged, start


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    sets = make_sets(folder)
    write_config(
        folder / "train.yaml", sets / "train", folder / "run", model__heads={"classification": {"hidden": "tanh"}},
        model__dropout={}, model__position={"maximum": 64}, optimizer__learning_rate=0.01, data__global_batch=16,
        steps=40, schedule={"name": "linear", "warmup": 4, "steps": 40}, checkpoint={"every": 20, "keep_last": 3},
    )  # fmt: skip
    return folder


def weights(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in steps_in(run / "checkpoints")[-1].glob("*.safetensors")}


def test_a_task_is_learnt_and_resumed_to_the_bit(one_rank: RankPool, task: Path) -> None:
    assert one_rank.run(start, task / "train.yaml", []) == [(0, "")]
    assert evaluations(task / "run", "dev")[-1]["figures"]["classification/accuracy"] == 1.0
    assert read_config(task / "run").model.heads["classification"].labels == ("0", "1")
    other = task / "resumed"
    assert one_rank.run(start, task / "train.yaml", [f"output={other}", "steps=20"]) == [(0, "")]
    assert one_rank.run(start, task / "train.yaml", [f"output={other}"]) == [(0, "")]
    assert logged(task / "run") == logged(other)
    assert weights(task / "run") == weights(other)
