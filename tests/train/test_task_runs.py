"""Fine-tuning runs: classes learnt from a task's sets, evaluated on its other split, resumed to the bit."""

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.format import steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from clozeline.train.startup.open_run import read_config
from tests.distributed import RankPool
from tests.pipeline.task_files import make_question_sets, make_sets
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


def test_a_body_without_segments_reads_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No key is needed to leave the segments unread, and one line says that they are."""
    sets = make_question_sets(tmp_path)
    config = write_config(
        tmp_path / "train.yaml", sets / "train", tmp_path / "run", model__heads={"span": {}},
        model__position={"maximum": 64}, data__global_batch=16, steps=4,
    )  # fmt: skip
    assert dry_run(load_config(TrainConfig, config)) == 0
    assert capsys.readouterr().out.count("segment_starts stays unread") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.heads={span: 1.0}"], "model.heads: span cannot be trained on"),
        (["model.heads={classification: {labels: [b, a]}}"], "labels: expected 0, 1 in this order"),
        (["regularizer={name: ewc, fisher: FOLDER/none, strength: 1.0}"], "is no file"),
    ],
)
def test_what_does_not_go_together_is_refused_before_the_first_step(
    one_rank: RankPool, task: Path, words: list[str], message: str
) -> None:
    base, output = task / "base", task / "refused"
    if not base.exists():
        begun = [f"output={base}", "steps=1", "schedule.steps=8", "evaluate.max_rows=0"]
        assert one_rank.run(start, task / "train.yaml", begun) == [(0, "")]
    beside = [f"output={output}", f"model.init_from={base}"]
    given = [word.replace("FOLDER", str(task)) for word in words]
    ((code, said),) = one_rank.run(start, task / "train.yaml", [*beside, *given])
    assert code == 64
    assert message in said
    assert not (output / "metrics.jsonl").exists()
    assert not steps_in(output / "checkpoints")
