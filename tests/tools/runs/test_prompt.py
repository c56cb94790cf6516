"""Prompts from the command line: what they say, what changes nothing, and what is refused."""

import json
from pathlib import Path

import pytest
import torch

from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.prompt import main
from clozeline.train.open_run import open_run
from tests.tools.runs.prompting.test_scorers import prompted_run

ROOT = Path(__file__).parents[3]
TEMPLATE = """
example: "{text}:{label}."
separator: ";"
fields: {text: sentence}
labels: {positive: [" a", " the"], negative: [" not"]}
values: {"1": positive, "0": negative}
"""
WORDS = ("page", "book", "note", "letter", "line", "word")


def sentences(count):
    """Different texts of a few words, and their labels."""
    found = []
    for number in range(count):
        words = [WORDS[(number * 5 + place * place) % 6] for place in range(1 + number % 3)]
        found.append((f"{' '.join(words)} {number}", number % 2))
    return found


def write_rows(path, rows):
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


@pytest.fixture(scope="module")
def folder(shard_sets, tmp_path_factory):
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


def ask(folder, kind, *words, rows="dev"):
    """The scores, and the lines of the rows."""
    output = [f"output={folder / 'scores.json'}", f"predictions={folder / 'rows.jsonl'}"]
    given = [f"template={folder / 'short.yaml'}", f"input={folder / rows}.tsv"]
    assert main([str(folder / kind), *given, *output, *words]) == 0
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return json.loads((folder / "scores.json").read_text()), [json.loads(line) for line in lines]


def test_answers_of_a_list_are_scored_by_their_share_of_the_probability(folder, tmp_path):
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


def test_a_small_window_drops_demonstrations_then_skips_rows(folder):
    words = [f"train={folder / 'train.tsv'}", "shots=3"]
    whole, few, none = (ask(folder, "causal", *words, f"window={size}")[0] for size in (64, 30, 5))
    assert few["dropped_demonstrations"] > whole["dropped_demonstrations"]
    assert (few["skipped"], few["n"]) == (0, 10)
    assert few["rows_with_dropped"] <= 10
    assert (none["skipped"], none["n"], none["metrics"]) == (10, 0, {})


def test_refusals(folder, capsys):
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
