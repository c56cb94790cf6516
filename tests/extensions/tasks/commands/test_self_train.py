"""Self-training in rounds."""

import json

import pytest

from clozeline.extensions.tasks.commands.self_train import Round, reason_to_stop
from clozeline.extensions.tasks.commands.self_train import main as self_train
from clozeline.train.checkpoint.trained_model import read_config
from tests.extensions.tasks.task_runs import body_and_recipe


def rounds_of(*scores, changed=0.5):
    return [
        Round(10, None if number < 2 else changed, {"accuracy": score})
        for number, score in enumerate(scores)
    ]


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
def test_when_no_other_round_follows(scores, changed, patience, expected):
    assert reason_to_stop(rounds_of(*scores, changed=changed), 4, patience) == expected


@pytest.mark.slow
def test_rounds_until_the_score_stays(one_rank, tmp_path, capsys):
    """Students train from the body on labeled rows and the labels of the round before.

    A second call adds nothing.
    """
    output = tmp_path / "out"
    files, words = body_and_recipe(one_rank, tmp_path, steps=6)
    texts = [line.rsplit("\t", 1)[0] for line in (files / "dev.tsv").read_text().splitlines()[1:]]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    words += [
        f"unlabeled={tmp_path}/texts.txt",
        f"output={output}",
        "threshold=0.5",
        "log.tensorboard=false",
    ]

    assert self_train([*words, "rounds=1"]) == 0
    assert "stopped: " in capsys.readouterr().out

    recorded = json.loads((output / "rounds.json").read_text())

    assert [one["labels"] for one in recorded] == [0, len(texts)]

    student = read_config(output / "round-1/seed-0")

    assert str(student.model.init_from) == words[0]
    assert [path.name for path in student.data.shards] == ["train", "train_pseudo"]

    labeled_by = json.loads((output / "round-1.jsonl.json").read_text())["run"]

    assert labeled_by == f"{output}/round-0/seed-0"

    before = [(output / f"round-{number}" / "seed-0/metrics.jsonl").stat() for number in range(2)]
    pseudo = (output / "round-1.jsonl").read_bytes()
    (output / "round-1.jsonl").unlink()

    assert self_train([*words, "rounds=2", "patience=2"]) == 0

    again = json.loads((output / "rounds.json").read_text())

    assert again[:2] == recorded
    assert len(again) == 3
    assert before == [
        (output / f"round-{number}" / "seed-0/metrics.jsonl").stat() for number in range(2)
    ]
    assert pseudo == (output / "round-1.jsonl").read_bytes()
    assert self_train([*words[:-2], "threshold=0.7", "log.tensorboard=false"]) == 64
    assert "holds results of other settings: threshold was 0.5, is 0.7" in capsys.readouterr().err
