"""Self-training in rounds: when it stops, and the chain from labeled rows to the table, resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.tools.experiments.self_train import Round, main, reason_to_stop, table_lines
from clozeline.train.startup.open_run import read_config
from tests.distributed import RankPool
from tests.pipeline.task_files import write_recipe
from tests.tools.runs.evaluation.task_runs import tuned_run


def rounds_of(*scores: float, changed: float | None = 0.5) -> list[Round]:
    return [Round(10, None if number < 2 else changed, {"accuracy": score}) for number, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "changed", "patience", "expected"),
    [
        ([0.5], 0.5, 1, None),
        ([0.5, 0.6], 0.5, 1, None),
        ([0.5, 0.6, 0.6], 0.5, 1, "no higher score for 1 round"),
        ([0.5, 0.6, 0.6], 0.5, 2, None),
        ([0.5, 0.6, 0.4, 0.59], 0.5, 2, "no higher score for 2 rounds"),
        ([0.5, 0.6, 0.4, 0.61], 0.5, 2, None),
        ([0.5, 0.6, 0.7], 0.009, 1, "fewer than 1% of the labels changed"),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 0.5, 1, "4 rounds, as `rounds` says"),
    ],
)
def test_when_no_other_round_follows(scores: list[float], changed: float, patience: int, expected: str | None) -> None:
    assert reason_to_stop(rounds_of(*scores, changed=changed), 4, patience) == expected


def test_the_table_names_the_best_round() -> None:
    lines = list(table_lines(rounds_of(0.5, 0.625, 0.6), "why"))
    assert [line.split() for line in lines[1:4]] == [
        ["0", "10", "-", "0.5000"],
        ["1", "10", "-", "0.6250", "best"],
        ["2", "10", "50.0%", "0.6000"],
    ]
    assert lines[4] == "stopped: why; the best run is round-1/seed-0"


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "body").mkdir()
    words = ["task=sst2", f"train={tmp_path}/t", f"dev={tmp_path}/d", f"unlabeled={tmp_path}/u", f"output={tmp_path}/o"]
    assert main([str(tmp_path / "body"), *words]) == 64
    assert "/u: no such file; give one with texts" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_rounds_until_the_score_stays(one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Students train from the body on labeled rows and the labels of the round before; a second call adds nothing."""
    body, recipe, output = tuned_run(one_rank, tmp_path / "first"), tmp_path / "toy", tmp_path / "out"
    recipe.mkdir()
    write_recipe(recipe).rename(recipe / "pipeline.yaml")
    text = "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: 0.01}\n"
    text += "schedule: {name: linear, warmup: 1}\ndata: {global_batch: 16, lanes: 4, micro_batch: 8}\nsteps: 6\n"
    (recipe / "train.yaml").write_text(text, encoding="utf-8")
    files = tmp_path / "first" / "files"
    texts = [line.rsplit("\t", 1)[0] for line in (files / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    words = [str(body), f"task={recipe}", f"train={files / 'train.tsv'}", f"dev={files / 'dev.tsv'}"]
    words += [f"unlabeled={tmp_path / 'texts.txt'}", f"output={output}", "threshold=0.5", "log.tensorboard=false"]
    assert main([*words, "rounds=1"]) == 0
    printed = capsys.readouterr().out
    recorded = json.loads((output / "rounds.json").read_text(encoding="utf-8"))
    assert [one["labels"] for one in recorded] == [0, len(texts)]
    assert "stopped: " in printed
    student = read_config(output / "round-1" / "seed-0")
    assert student.model.init_from == body
    assert [path.name for path in student.data.shards] == ["train", "train_pseudo"]  # type: ignore[union-attr]
    labeled_by = json.loads((output / "round-1" / "pseudo.jsonl.json").read_text(encoding="utf-8"))["run"]
    assert labeled_by == str(output / "round-0" / "seed-0")
    before = [(output / f"round-{number}" / "seed-0" / "metrics.jsonl").stat() for number in range(2)]
    pseudo = (output / "round-1" / "pseudo.jsonl").stat()
    assert main([*words, "rounds=2", "patience=2"]) == 0
    again = json.loads((output / "rounds.json").read_text(encoding="utf-8"))
    assert again[:2] == recorded
    assert len(again) == 3
    assert before == [(output / f"round-{number}" / "seed-0" / "metrics.jsonl").stat() for number in range(2)]
    assert pseudo == (output / "round-1" / "pseudo.jsonl").stat()
    assert main([*words[:-2], "threshold=0.7", "log.tensorboard=false"]) == 64
    assert "holds runs with other settings: threshold was 0.5, is 0.7" in capsys.readouterr().err
