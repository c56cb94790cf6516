"""Prompts from the command line: what they say, what changes nothing, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.prompt import main
from clozeline.train.startup.open_run import open_run
from tests.tools.runs.prompting.prompted_runs import prompted_run

ROOT = Path(__file__).parents[3]
TEMPLATE = """
example: "{text}:{label}."
separator: ";"
fields: {text: sentence}
labels: {positive: [" a", " the"], negative: [" not"]}
values: {"1": positive, "0": negative}
"""
WORDS = ("page", "book", "note", "letter", "line", "word")


def sentences(count: int) -> list[tuple[str, int]]:
    """Different texts of a few words, and their labels."""
    found = []
    for number in range(count):
        words = [WORDS[(number * 5 + place * place) % 6] for place in range(1 + number % 3)]
        found.append((f"{' '.join(words)} {number}", number % 2))
    return found


def write_rows(path: Path, rows: list[tuple[str, int]]) -> Path:
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


@pytest.fixture(scope="module")
def folder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two kinds, and the rows."""
    folder = tmp_path_factory.mktemp("prompted")
    for kind in ("causal", "cloze"):
        (folder / kind).mkdir()
        prompted_run(folder / kind, shard_sets, kind)
    rows = sentences(24)
    (folder / "short.yaml").write_text(TEMPLATE)
    (folder / "open.yaml").write_text('example: "{sentence}: {label}"')
    write_rows(folder / "dev.tsv", rows[:10])
    write_rows(folder / "reversed.tsv", rows[9::-1])
    write_rows(folder / "train.tsv", rows[5:])
    return folder


def ask(folder: Path, kind: str, *words: str, rows: str = "dev") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The scores, and the lines of the rows."""
    output = [f"output={folder / 'scores.json'}", f"predictions={folder / 'rows.jsonl'}"]
    given = [f"template={folder / 'short.yaml'}", f"input={folder / rows}.tsv"]
    assert main([str(folder / kind), *given, *output, *words]) == 0
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return json.loads((folder / "scores.json").read_text()), [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["causal", "cloze"])
@pytest.mark.parametrize("score", ["sum", "pmi"])
def test_scores_and_rows(folder: Path, kind: str, score: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [f"train={folder / 'train.tsv'}", "shots=2", f"score={score}", "window=64"]
    scores, lines = ask(folder, kind, *shown)
    said = capsys.readouterr().out
    assert f"by {kind}, score {score}, 2 demonstrations (balanced, seed 0): 10 rows, step 3" in said
    assert "majority" in said
    assert {"checkpoint", "tokenizer", "seed", "step", "template", "ties", "skipped", "truncated"} <= scores.keys()
    assert scores["n"] == len(lines) == 10
    right = sum(line["prediction"] == line["label"] for line in lines)
    assert scores["metrics"]["accuracy"] == pytest.approx(right / 10)
    assert scores["dropped_demonstrations"] == sum(line["dropped"] for line in lines)
    for line in lines:
        assert line["prediction"] == max(line["scores"], key=line["scores"].__getitem__)
        assert line["uid"] not in line["demonstrations"]


def test_answers_of_a_list_are_scored_by_their_share_of_the_probability(folder: Path, tmp_path: Path) -> None:
    """Probabilities are those of the answers alone; a correct label that no answer names is counted."""
    answers = ["page", "book", "negative", "no"]
    (tmp_path / "answers.txt").write_text("".join(f"{each}\n" for each in answers), encoding="utf-8")
    (tmp_path / "open.yaml").write_text(TEMPLATE.replace("labels: {positive", "#").replace(":{label}", ": {label}"))
    words = [f"template={tmp_path / 'open.yaml'}", f"answers={tmp_path / 'answers.txt'}"]
    scores, lines = ask(folder, "causal", *words)
    assert (scores["n"], scores["refused"]) == (5, {"bad_label": 5})  # the rows that are negative
    trained = open_run(folder / "causal")
    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [text for text, label in sentences(24)[:10] if label == 0]
    for text, line in zip(rows, lines, strict=True):
        prompt = [end, *trained.tokenizer.encode([f"{text}:"])[0].ids.tolist()]
        joined = [[end, *trained.tokenizer.encode([f"{text}: {each}"])[0].ids.tolist()] for each in answers]
        sums = [float(each[len(prompt) - 1 :].sum()) for each in log_likelihoods(trained.model, joined)]
        shares = torch.tensor(sums, dtype=torch.float64).softmax(0).tolist()
        assert [*line["probabilities"]] == answers
        assert [*line["probabilities"].values()] == pytest.approx(shares, rel=1e-4)
        assert line["prediction"] == answers[shares.index(max(shares))]


def test_batches_order_and_repetition_change_nothing(folder: Path) -> None:
    words = [f"train={folder / 'train.tsv'}", "shots=2", "window=64"]
    scores, lines = ask(folder, "causal", *words)
    again, same = ask(folder, "causal", *words)
    assert (scores, lines) == (again, same)
    for changed in (
        ask(folder, "causal", *words, "batch_tokens=50")[1],
        ask(folder, "causal", *words, rows="reversed")[1][::-1],
    ):
        for one, other in zip(lines, changed, strict=True):
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
            assert (one["uid"], one["demonstrations"]) == (other["uid"], other["demonstrations"])
    assert [line["demonstrations"] for line in ask(folder, "causal", *words, "seed=1")[1]] != [
        line["demonstrations"] for line in lines
    ]


def test_a_small_window_drops_demonstrations_then_skips_rows(folder: Path) -> None:
    words = [f"train={folder / 'train.tsv'}", "shots=3"]
    whole, few, none = (ask(folder, "causal", *words, f"window={size}")[0] for size in (64, 30, 5))
    assert few["dropped_demonstrations"] > whole["dropped_demonstrations"]
    assert (few["skipped"], few["n"]) == (0, 10)
    assert few["rows_with_dropped"] <= 10
    assert (none["skipped"], none["n"], none["metrics"]) == (10, 0, {})


def test_refusals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [f"template={ROOT / 'configs/prompts/polarity.yaml'}", f"input={folder / 'dev.tsv'}"]
    for words, message in (
        (["shots=2"], "shots=2: expected train=FILE"),
        (["shots=30", f"train={folder / 'train.tsv'}"], "with more labeled rows than that, got 19"),
        (["window=65"], "window=65: the position table has room for 64 tokens"),
        (["mode=cloze"], "mode=cloze: the run was not trained for it"),
        (["skore=sum"], "score"),
        (["answers=[yes]"], "answers: expected two or more different texts, got 1"),
        ([f"template={folder / 'open.yaml'}"], "open.yaml: has no labels; add them, or name the answers: answers=FILE"),
        ([f"input={folder / 'none.tsv'}"], "none.tsv: no such file"),
    ):
        assert main([str(folder / "causal"), *given, *words]) == 64
        assert message in capsys.readouterr().err
