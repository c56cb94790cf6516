"""Scores of a small fine-tuned run, against its own evaluation in training, from one process and from several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.tools.experiments.multirun.finetuning_scores import comparison_lines, read_scored, score_run
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run, main
from clozeline.tools.runs.evaluation.perplexity import perplexity_scores
from clozeline.tools.shards.explain_batch import main as explain
from clozeline.tools.shards.validate_shards import main as validate
from clozeline.train.checkpoint import part_reader
from clozeline.train.distributed.process_group import World
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import (
    chat_run,
    choice_run,
    question_run,
    several_run,
    tagged_run,
    text_run,
    tuned_run,
    worded_run,
)
from tests.train.written_runs import write_run


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def test_the_score_is_that_of_the_trainer(tuned: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(tuned), "--json", f"output={tmp_path / 'scores.json'}"]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "scores.json").read_text(encoding="utf-8") == printed
    scores: dict[str, Any] = json.loads(printed)
    lines = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    own = next(line["heldout"]["dev"] for line in reversed(lines) if line.get("heldout"))
    assert scores["metrics"]["accuracy"] == pytest.approx(own["figures"]["classification/accuracy"])
    assert (scores["task"], scores["split"], scores["n"], scores["seed"]) == ("sst2", "dev", 21, 7)
    assert scores["baselines"].keys() == {"majority", "words"}
    assert scores["baselines"]["words"]["accuracy"] == 1.0
    assert main([str(tuned), "split=train"]) == 0
    assert "sst2 train: 60 texts, 0 truncated, 0 skipped, 0 contradicting; step 6, seed 7" in capsys.readouterr().out


def _evaluated(world: World, run: Path) -> str:
    return evaluate_run(run, EvaluateOptions(split="train"), world)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_the_bytes_do_not_depend_on_the_processes(tuned: Path, size: int) -> None:
    """60 rows in batches of 32 leave a third process without one."""
    pool = RankPool(size)
    try:
        texts = pool.run(_evaluated, tuned)
    finally:
        pool.close()
    assert texts == [evaluate_run(tuned, EvaluateOptions(split="train"))] * size


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["splitt=dev"], "did you mean 'split'"),
        (["step=0"], "step"),
        (["step=5"], "holds no checkpoint of step 5"),
        (["suite=blimp"], "input"),
        (["window=4"], "window"),
        (["suite=blimp", "input=a", "perplexity=b"], "suite"),
        (["suite=lm_eval", "input=a"], "suite=lm_eval: needs tasks=[NAME, ...]"),
        (["tune=true"], "tune: sst2 has no questions without answers"),
    ],
)
def test_mistakes(tuned: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main([str(tuned), *words]) == 64
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_tags_are_scored_by_words(one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tagged_run(one_rank, tmp_path)
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["metrics"]["entity_f1"] == scores["metrics"]["strict_entity_f1"] == 1.0
    assert scores["n"] == sum(3 + number % 4 for number in range(60, 81))
    assert scores["baselines"].keys() == {"majority", "most_frequent_tag"}
    assert scores["baselines"]["majority"]["entity_f1"] == 0.0
    assert scores["labels"] == ["O", "B-X", "I-X"]
    score_run(run, "dev", tmp_path / "scored.json")
    assert json.loads((tmp_path / "scored.json").read_text())["scores"] == scores


@pytest.mark.slow
def test_answers_are_scored_by_questions(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answers are learnt, and beat the best sentence; of several windows one question is asked."""
    run = question_run(one_rank, tmp_path)
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["n"] == 21
    assert scores["metrics"]["exact_match"] >= scores["metrics"]["f1"] > 0.6  # `a` alone has no word to share
    assert scores["below"] == {"exact_match": [], "f1": []}
    score_run(run, "dev", tmp_path / "scored.json")
    assert json.loads((tmp_path / "scored.json").read_text())["scores"] == scores


@pytest.mark.slow
def test_choices_are_scored_by_examples(one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The accuracy is that of the trainer, over 21 examples of two to four rows."""
    run = choice_run(one_rank, tmp_path)
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    own = next(line["heldout"]["dev"] for line in reversed(lines) if line.get("heldout"))
    assert scores["metrics"]["accuracy"] == pytest.approx(own["figures"]["multiple_choice/accuracy"])
    assert scores["n"] == 21
    assert scores["baselines"].keys() == {"majority", "words"}
    score_run(run, "dev", tmp_path / "scored.json")
    held = json.loads((tmp_path / "scored.json").read_text())
    right = [one == other for one, other in zip(held["answers"], held["predicted"], strict=True)]
    assert sum(right) / 21 == pytest.approx(scores["metrics"]["accuracy"])


@pytest.mark.slow
def test_last_answers_of_dialogues_are_scored(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decoder is given all before the last answer, which it has learnt, and ends it."""
    run = chat_run(one_rank, tmp_path)
    assert validate([str(tmp_path / "out" / "tasks" / "toy" / "train")]) == 0
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["n"] == 11
    assert scores["metrics"]["exact_match"] > 0.8
    assert scores["baselines"]["majority"]["exact_match"] < 0.7
    assert explain(["--run", str(run), "--step", "1"]) == 0
    assert "label_ids: " in capsys.readouterr().out


def test_texts_are_scored_by_masks(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, text = tmp_path / "run", tmp_path / "text.txt"
    write_run(run, shard_sets, [3], 1)
    text.write_text("the page of the book .")
    keys = [str(run), f"perplexity={text}", "window=9"]
    assert main([*keys, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["pseudo_perplexity"] == perplexity_scores(run, open_run(run), text, 9, None)["pseudo_perplexity"]
    assert "perplexity" not in scores
    assert main([*keys, "score=pll_word"]) == 0
    assert capsys.readouterr().out.startswith("pseudo-perplexity ")
    assert main([*keys, "score=causal"]) == 64
    assert "score=causal: the run was not trained for it" in capsys.readouterr().err


def test_texts_are_scored_by_a_decoder(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, text, pairs = tmp_path / "run", tmp_path / "text.txt", tmp_path / "pairs.jsonl"
    run.mkdir()
    write_run(run, shard_sets, [3], 1, "causal_lm", model__family="decoder", model__heads={"lm": 1.0})
    text.write_text("the page of the book .")
    names = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
    rows = [
        ("the page of the book .", "page the book of the .", "order", "syntax"),
        ("a page", "a a", "noun", "syntax"),
    ]
    pairs.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    assert main([str(run), f"perplexity={text}", "window=4", "stride=1", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    wanted = perplexity_scores(run, open_run(run), text, 4, 1)
    assert {name: scores[name] for name in wanted} == wanted
    assert (scores["step"], len(scores["checkpoint"]), len(scores["tokenizer"])) == (3, 32, 64)
    keys = ["suite=blimp", f"input={pairs}", f"baseline={text}", f"output={tmp_path / 'scores.json'}"]
    assert main([str(run), *keys]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("blimp by causal: 2 pairs of 2 paradigms, 0 ties; step 3\n  syntax  ")
    found = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert found["paradigms"]["order"]["baselines"]["bigram"] == 1.0
    assert (found["baseline_words"], found["correlation_with_bigram"]) == (6, None)
    assert main([str(run), *keys, "score=mntp"]) == 64
    assert "score=mntp: the run was not trained for it" in capsys.readouterr().err


@pytest.mark.slow
def test_texts_are_generated_and_compared(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = text_run(one_rank, tmp_path)
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["metrics"]["exact_match"] > 0.9
    assert scores["baselines"]["majority"]["exact_match"] == pytest.approx(11 / 21)
    score_run(run, "dev", tmp_path / "scored.json")
    assert json.loads((tmp_path / "scored.json").read_text())["scores"] == scores


@pytest.mark.slow
def test_written_classes_are_scored_and_compared(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the metric of the task, which the stored answers give again; a run of one step names no class."""
    runs = [worded_run(one_rank, tmp_path / name, steps=steps) for name, steps in (("long", 60), ("short", 1))]
    capsys.readouterr()
    found = []
    for run in runs:
        assert main([str(run)]) == 0
        score_run(run, "dev", run / "scores" / "seed-0.json")
        found.append(read_scored(run))
        stored = found[-1][0]
        assert stored.value("accuracy", np.arange(stored.rows)) == stored.scores["metrics"]["accuracy"]
    assert "21 texts, 0 truncated, 0 skipped, 0 unparsable" in (said := capsys.readouterr().out)
    assert "21 unparsable" in said
    assert found[0][0].scores["metrics"]["accuracy"] > 0.9
    (line,) = comparison_lines([(str(run), scored) for run, scored in zip(runs[::-1], found[::-1], strict=True)])
    assert "accuracy +" in line
    assert " over texts" in line


def test_several_classes_are_scored_by_the_probability_of_each(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row by itself through the model, and F1 counted by hand."""
    run = several_run(one_rank, tmp_path)
    capsys.readouterr()
    assert main([str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["labels"] == ["bad", "film", "good"]
    trained, both, sums, right = open_run(run), 0, 0, 0
    special = trained.tokenizer.vocabulary.specials
    for row in map(json.loads, (tmp_path / "files" / "dev.jsonl").read_text().splitlines()):
        ids = [special["cls"], *trained.tokenizer.encode([row["text"]])[0].ids.tolist(), special["sep"]]
        tensors = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None],
                   "lengths": torch.tensor([len(ids)])}  # fmt: skip
        with torch.no_grad():
            chances = trained.model.logits(tensors)["classification"][0].sigmoid()
        found = {name for name, chance in zip(scores["labels"], chances.tolist(), strict=True) if chance > 0.5}
        both, sums = both + len(found & {*row["tags"]}), sums + len(found) + len(row["tags"])
        right += found == {*row["tags"]}
    assert scores["metrics"]["micro_f1"] == pytest.approx(2 * both / sums)
    assert 0.5 < scores["metrics"]["micro_f1"] < 1
    assert scores["metrics"]["subset_accuracy"] == right / scores["n"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    own = next(line["heldout"]["dev"] for line in reversed(lines) if line.get("heldout"))
    assert own["figures"]["classification/accuracy"] == pytest.approx(right / scores["n"])


def test_the_parts_of_a_checkpoint_are_hashed_once(
    shard_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding the checkpoint verifies it; loading it reads what was found."""
    write_run(tmp_path / "run", shard_sets, [3], 2)
    (tmp_path / "text.txt").write_text("the page of the book .")
    hashed, hash_file = [], part_reader.file_hash

    def count(path: Path) -> str:
        hashed.append(path.name)
        return hash_file(path)

    monkeypatch.setattr(part_reader, "file_hash", count)
    assert main([str(tmp_path / "run"), f"perplexity={tmp_path / 'text.txt'}", "window=9"]) == 0
    assert len(hashed) == len(set(hashed)) == 2
