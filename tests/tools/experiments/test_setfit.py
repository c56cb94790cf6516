"""SetFit: pairs of labeled texts, a body trained on them, and a classifier on its frozen vectors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from clozeline.tools.experiments.setfit import draw_pairs, main
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import tuned_run

TEXTS = [(f"text {index}", index % 3) for index in range(24)]


def test_each_text_has_pairs_of_both_scores_in_each_iteration() -> None:
    """Positive pairs are of one class and of two texts, and every text of the right classes is drawn about as often."""
    labels, pairs = dict(TEXTS), list(draw_pairs(TEXTS, 200, seed=3))
    assert len(pairs) == 200 * 24 * 2
    assert Counter((text, score) for text, _, score in pairs) == {(t, s): 200 for t, _ in TEXTS for s in (0.0, 1.0)}
    assert all((labels[a] == labels[b]) == bool(score) and a != b for a, b, score in pairs)
    partners = Counter(other for text, other, score in pairs if text == "text 0" and score)
    assert len(partners) == 7
    assert all(15 <= count <= 45 for count in partners.values()), "200 / 7 = 28.6 on average"
    assert list(draw_pairs(TEXTS, 2, seed=3)) == pairs[:96], "more iterations keep the first ones"
    assert list(draw_pairs(TEXTS, 2, seed=4)) != pairs[:96]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,x\nb,y\n", "expected two texts of a class, got 2 texts of 2 classes"),
        ("text,label\na,x\nb,x\n", "expected 2 or more classes in the column label, got x"),
        ("body,label\na,x\nb,x\n", "text"),
        (None, "train.csv: no such file; give one with labeled texts"),
    ],
    ids=["alone", "one class", "column", "file"],
)
def test_files_without_pairs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    (tmp_path / "body").mkdir()
    if content is not None:
        (tmp_path / "train.csv").write_text(content, encoding="utf-8")
    files = [f"train={tmp_path / 'train.csv'}", f"dev={tmp_path / 'train.csv'}", f"output={tmp_path / 'out'}"]
    assert main([str(tmp_path / "body"), *files]) == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_eight_texts_a_class(one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From CSV to scores; the classifier trains on the body of the first step, which stays as it is."""
    body, output = tuned_run(one_rank, tmp_path / "first"), tmp_path / "out"
    files = tmp_path / "first" / "files"
    few: dict[str, list[str]] = {"0": [], "1": []}
    for line in (files / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        text, label = line.rsplit("\t", 1)
        few[label].append(text)
    rows = [f'"{text}",{label}' for label, texts in few.items() for text in texts[:8]]
    (tmp_path / "few.csv").write_text("\n".join(["review,stars", *rows]) + "\n", encoding="utf-8")
    words = [f"train={tmp_path / 'few.csv'}", f"dev={tmp_path / 'few.csv'}", "text=review", "label=stars"]
    words += [f"output={output}", "iterations=5", "body.optimizer.learning_rate=1e-3", "log.tensorboard=false"]
    assert main([str(body), *words]) == 0
    printed = capsys.readouterr().out
    assert "setfit dev, 16 texts" in printed
    assert len((output / "pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 5 * 16 * 2
    metrics = json.loads((output / "scores" / "seed-0.json").read_text(encoding="utf-8"))["scores"]["metrics"]
    assert metrics["accuracy"] >= 0.9
    weights = [read_weights(*find_checkpoint(run, None)) for run in (body, output / "body", output / "head")]
    names = [name for name in weights[0] if name.startswith("family.")]
    assert all(torch.equal(weights[1][name], weights[2][name]) for name in names)
    assert not all(torch.equal(weights[0][name], weights[1][name]) for name in names)
    before = (output / "head" / "metrics.jsonl").stat()
    assert main([str(body), *words]) == 0
    assert (output / "head" / "metrics.jsonl").stat() == before
    assert main([str(body), *words, "steps=9"]) == 64
    assert "holds runs with other settings: overrides was" in capsys.readouterr().err
