"""A run and its split, its threshold of no answer, its scores and errors."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from clozeline.configuration.config import validate
from clozeline.errors import IntegrityError
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.evaluation.heldout_score import (
    _estimate_standard_error,
    heldout_score,
    label_loss,
)
from clozeline.extensions.tasks.answer_threshold import read_threshold, store_threshold
from clozeline.extensions.tasks.error_analysis import collect_answers, error_lines
from clozeline.extensions.tasks.heads.classification import ClassificationTaskHead
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.scores import lines_of, score_run
from clozeline.extensions.tasks.task_run import open_task_run, set_rows
from clozeline.model.build import build_model
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from clozeline.tools.runs.data.run_sets import SetPaths
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.collate import Collate
from tests.extensions.tasks.task_runs import TASKS
from tests.pages import checked
from tests.pipeline import task_files
from tests.pipeline.task_files import write_questions, write_recipe_of, write_vocabulary
from tests.refusals import refused
from tests.sealed_lines import sealed
from tests.train.masked_set import plain_config, write_masked_sets
from tests.train.written_runs import write_run_on

SCORES = {
    "task": "toy",
    "split": "dev",
    "n": 10,
    "metrics": {"accuracy": 0.7, "f1": 0.9},
    "baselines": {"majority": {"accuracy": 0.5, "f1": 0.0}, "words": {"accuracy": 0.8, "f1": 0.9}},
    "lower": [],
    "degenerate": False,
    "seed": 3,
    "step": 20,
    "truncated": 4,
    "skipped": {"fields": 2, "bad_label": 1},
    "unit": "texts",
    "notes": {},
}


def test_a_score_below_a_baseline_is_printed_as_such():
    head, few, accuracy, f1 = lines_of(SCORES)

    assert "4 truncated, 3 skipped" in head
    assert "10 texts decides nothing" in few
    assert "worse than words" in accuracy
    assert "worse" not in f1


def test_a_run_keeps_the_threshold_of_its_checkpoint(tmp_path, capsys):
    path = tmp_path / "answer_threshold.json"
    noted = []

    for checkpoint, threshold in (("a", 0.0), ("a", -1.5), ("b", 0.0)):
        assert read_threshold(tmp_path, checkpoint) == threshold
        noted.append(str(path) in capsys.readouterr().err)
        store_threshold(tmp_path, -1.5, {"checkpoint": "a", "set": "s", "f1": 0.5})

    assert noted == [True, False, True]

    path.write_text(path.read_text().replace("-1.5", "-2.5"))
    with pytest.raises(IntegrityError, match=r"answer_threshold\.json"):
        read_threshold(tmp_path, "a")
    path.write_text(json.dumps({}))
    with pytest.raises(IntegrityError, match=r"answer_threshold\.json"):
        read_threshold(tmp_path, "a")


def test_evaluate_tunes_and_later_scores_use_it(tmp_path, capsys):
    """Of an untrained run, whose margins are arbitrary: every second question has no answer."""
    files = write_questions(tmp_path / "files")
    for path in files.iterdir():
        data = json.loads(path.read_text())
        for number, article in enumerate(data["data"]):
            if number % 2:
                article["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
        path.write_text(json.dumps({**data, "version": "v2.0"}))

    write_recipe_of(tmp_path, "{name: squad, task: toy, unanswerable: true}", max_length=14)
    sets = task_files.run(tmp_path, write_vocabulary(tmp_path / "words"))
    model = {"model__heads": {"span": {}}, "model__init": {"std": 0.5}}
    write_run_on(tmp_path / "run", sets / "train/manifest.json", [1], 1, **model)
    capsys.readouterr()

    def scores(*words):
        assert evaluate([f"{tmp_path}/run", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    before = scores()
    tuned = scores("tune=true")
    after = scores()

    assert before["threshold"] == 0.0
    assert tuned == after
    assert after["threshold"] == read_threshold(tmp_path / "run", after["checkpoint"]) != 0.0
    # 11 of 21 with an answer, or none
    assert after["metrics"]["f1"] >= max(before["metrics"]["f1"], 11 / 21 - 1e-9)


def test_a_split_that_is_not_there(tuned):
    with refused(r"split=test: .* holds no such split, but dev, train"):
        open_task_run(tuned, "test")


def test_sets_that_moved_are_named(tuned, tmp_path):
    run = shutil.copytree(tuned, tmp_path / "run")
    sets = shutil.copytree(tuned.parent / "out/tasks/sst2", tmp_path / "moved")
    opened = open_task_run(run, "dev", set_paths=SetPaths(shards=sets / "train"))

    assert (opened.shards.path.parent, opened.train.path.parent) == (sets / "dev", sets / "train")

    config = run / "config.yaml"
    text = config.read_text().replace(str(tuned.parent / "out"), f"{tmp_path}/gone")
    config.write_text(text)

    with refused(r"gone/tasks/sst2: no such folder.* data\.shards=MANIFEST"):
        open_task_run(run, "dev")


def test_a_run_for_other_classes(tuned, tmp_path):
    """The run's classes are those of its checkpoint, whatever config.yaml says now."""
    sets = shutil.copytree(tuned.parent / "out/tasks/sst2", tmp_path / "sst2")
    manifest = sets / "dev/manifest.json"
    plain = json.loads(manifest.read_text())
    plain["objective"]["options"]["task"]["labels"] = ["1", "0"]
    del plain["checksum"]
    plain["checksum"] = canonical_sha256(plain)
    manifest.write_text(manifest_text(plain))
    with refused(r"was trained for the classes 0, 1, .* has 1, 0"):
        open_task_run(tuned, "dev", sets)


def test_training_rows_that_were_made_again(tuned, tmp_path):
    """At their path lie other rows, which neither baselines nor predictions may rest on."""
    run = shutil.copytree(tuned, tmp_path / "run")
    sets = task_files.make_sets(tmp_path, train=20)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(tuned.parent), str(tmp_path)))
    with refused(r"sst2/train/.* made again .* data\.shards=MANIFEST"):
        open_task_run(run, "dev")

    assert open_task_run(run, "dev", sets).train.path.parent == sets / "train"


NAMES = ("a", "b", "c")


@pytest.mark.parametrize("several", [False, True])
def test_scores_by_class_against_scikit_learn(several):
    generator = np.random.Generator(np.random.PCG64(2))
    gold, guessed = (
        generator.integers(0, 2, (2, 50, 3)) if several else generator.integers(0, 3, (2, 80))
    )
    facts = TaskMetadata(
        name="t", head="classification", labels=NAMES, metrics=(), multi_label=several
    )

    def named(row):
        return [NAMES[index] for index in np.flatnonzero(row)] if several else NAMES[row]

    records = [
        {"gold": named(one), "labels" if several else "label": named(two), "error": 0.0}
        for one, two in zip(gold, guessed, strict=True)
    ]
    lines = list(error_lines(ClassificationTaskHead(facts), records))
    header = lines.index("Scores by class:") + 1
    found = [line.split() for line in lines[header + 1 : header + 4]]
    columns = precision_recall_fscore_support(gold, guessed)
    for name, row, expected in zip(NAMES, found, zip(*columns, strict=True), strict=True):
        assert row == [name, *(f"{value:.4f}" for value in expected[:3]), str(expected[3])]
    if not several:
        table = [list(map(int, line.split()[1:])) for line in lines[2:5]]
        assert table == confusion_matrix(gold, guessed).tolist()


def test_the_classes_and_records_with_most_errors_are_shown():
    """Of thirteen classes the one without errors is left out.

    Each other one is taken once for its follower.
    """
    names = [f"c{number:02}" for number in range(13)]
    facts = TaskMetadata(
        name="t", head="classification", labels=names, metrics=(), multi_label=False
    )
    others = [names[number] for number in range(13) if number != 5]
    pairs = [
        (name, follower) for name, follower in zip(others, [*others[1:], others[0]], strict=True)
    ]
    records = [{"gold": "c05", "label": "c05", "error": 0.0}] * 2
    records += [
        {"gold": gold, "label": label, "error": 0.1 + at % 3}
        for at, (gold, label) in enumerate(pairs)
    ]
    lines = [*error_lines(ClassificationTaskHead(facts), records)]

    assert lines[0] == "Confusion (12 classes with most errors): gold by predicted:"
    assert [line.split() for line in lines[1:14]] == [
        ["gold", *others],
        *([gold, *(str(int((gold, label) in pairs)) for label in others)] for gold in others),
    ]
    assert lines[-11] == "Wrong: 12 of 14, the worst"

    worst = sorted(records, key=lambda record: record["error"], reverse=True)[:10]

    assert [json.loads(line) for line in lines[-10:]] == worst
    assert [*error_lines(ClassificationTaskHead(facts), records[:2])][-1] == "Wrong: 0 of 2"


def test_every_prediction_of_a_split_with_its_answer(runs, tmp_path, capsys):
    """The accuracy of the score follows from the file."""
    run = runs("classes") / "run"
    capsys.readouterr()
    words = [f"predictions={tmp_path}/p.jsonl", "errors=true"]

    assert evaluate([str(run), *words, f"output={tmp_path}/s.json"]) == 0

    shown = capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    right = [record["label"] == record["gold"] for record in records]

    assert json.loads((tmp_path / "s.json").read_text())["metrics"]["accuracy"] == pytest.approx(
        np.mean(right)
    )
    assert [record["error"] == 0 for record in records] == right
    assert {record["texts"][0].split()[-1] + record["gold"] for record in records} == {
        "good1",
        "bad0",
    }
    assert f"Wrong: {len(right) - sum(right)} of {len(right)}, the worst" in shown


@pytest.mark.parametrize("name", TASKS)
def test_the_page_of_a_scored_run_begins_with_scores_and_answers(runs, name, tmp_path):
    run = runs(name) / "run"
    score_run(run, "dev", path := tmp_path / "seed-0.json")
    page = checked((run / "report.html").read_text())
    scores = json.loads(path.read_text())["scores"]
    records = path.with_suffix(".predictions.jsonl").read_text().splitlines()

    values = {f"{value:.4f}" for value in scores["metrics"].values()}
    values |= {f"{value:.4f}" for each in scores["baselines"].values() for value in each.values()}

    assert values == {*page.texts[: page.texts.index("predicted")]} & values
    assert page.cells[:4] == ["text", "true", "predicted", page.cells[3]]

    kinds = {"wrong" if json.loads(record)["error"] else "right" for record in records}

    assert kinds <= {*page.cells}
    assert page.texts.index("predicted") < page.texts.index("Configuration")


@pytest.mark.parametrize("name", [name for name in TASKS if name != "classes"])
def test_every_head_has_errors(runs, name):
    """An error is 0 where gold and prediction agree, and only there."""
    opened = open_task_run(runs(name) / "run", "dev")
    rows = set_rows(opened.shards)
    records = collect_answers(opened, rows, opened.answer.predict(opened.task, rows))

    assert len(records) == len({record["uid"] for record in records}) > 0
    assert all(record["error"] >= 0 for record in records)
    assert any(record["error"] > 0 for record in records)

    key = {"tagging": "tags", "multiple_choice": "choice"}.get(TASKS[name][1])
    if key:
        assert [record["error"] == 0 for record in records] == [
            record["gold"] == record[key] for record in records
        ]


def test_nats_are_those_of_all_labels(tmp_path):
    """A mean over labels, not over rows or batches, which have different numbers of them."""
    shards = open_shards(write_masked_sets(tmp_path).parents[1] / "heldout")
    config = validate(TrainConfig, plain_config(data__shards="x", output="y"), "")
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids).eval()
    rows = set_rows(shards)
    collate = Collate.from_manifest(shards.manifest)
    total = count = 0.0
    first_rows = (0.0, 0.0)

    with torch.no_grad():
        for row in range(len(rows)):
            columns = {name: rows.columns[name].take(np.array([row])) for name in collate.columns}
            (loss,) = model(collate(columns, np.ones(1, np.float32))).values()
            total = total + float(loss.total)
            count = count + float(loss.count)
            first_rows = (total, count) if row == 4 else first_rows

    assert heldout_score(model, shards) == ("nats", pytest.approx(total / count, rel=1e-5))
    assert heldout_score(model, shards, 5) == (
        "nats",
        pytest.approx(first_rows[0] / first_rows[1], rel=1e-5),
    )
    # variants are compared on the same labels, whichever share of the gradient a row had in
    # training
    for head in model.heads.values():
        head.options = replace(head.options, normalize="row")

    assert heldout_score(model, shards)[1] != pytest.approx(total / count, rel=1e-6)
    assert label_loss(model, shards, 10**6).nats == pytest.approx(total / count, rel=1e-5)

    few = label_loss(model, shards, 5)

    assert few.nats == pytest.approx(first_rows[0] / first_rows[1], rel=1e-5)
    assert few.documents == len({rows.fixed["document_uid"][row].tobytes() for row in range(5)})


def test_the_standard_error_of_a_loss_is_that_of_its_documents():
    """Of equal documents stdev / sqrt(n).

    Of others what the jackknife gives, which leaves out a document at a time.
    """
    draws = np.random.default_rng(2)
    values = draws.normal(4.0, 0.5, 12)

    assert _estimate_standard_error(values, np.full(12, 7.0)) == pytest.approx(
        values.std(ddof=1) / 12**0.5
    )

    counts = draws.integers(50, 200, 12).astype(float)
    left = [np.average(np.delete(values, one), weights=np.delete(counts, one)) for one in range(12)]
    jackknife = (11 / 12 * ((np.array(left) - np.mean(left)) ** 2).sum()) ** 0.5

    assert _estimate_standard_error(values, counts) == pytest.approx(jackknife, rel=0.1)


def test_a_score_says_what_the_losses_of_the_training_mean(runs, tmp_path, capsys):
    """Rows that were learned by heart, and the step to evaluate instead.

    The score of another step says nothing.
    """
    run = shutil.copytree(runs("classes") / "run", tmp_path / "run")
    evaluated = {
        "loss": 0.9,
        "labels": 8,
        "unigram_entropy": 0.69,
        "losses": {"classification": 0.9},
    }

    records = [
        sealed(step=1, loss=0.6, tokens=8),
        sealed(step=1, heldout={"dev": {**evaluated, "loss": 0.5}}),
        sealed(step=3, loss=0.001, tokens=24),
        sealed(step=3, heldout={"dev": evaluated}),
    ]

    (run / "metrics.jsonl").write_text("".join(f"{record}\n" for record in records))
    capsys.readouterr()

    assert evaluate([str(run)]) == 0

    shown = capsys.readouterr().out

    assert "0.5000 at step 1" in shown
    assert "by heart" in shown

    shutil.copytree(run / "checkpoints/step-00000003", run / "checkpoints/step-00000004")

    assert evaluate([str(run), "step=3"]) == 0
    assert "by heart" not in capsys.readouterr().out
