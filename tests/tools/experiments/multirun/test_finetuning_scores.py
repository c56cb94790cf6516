from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.sealed_json import seal
from clozeline.tools.experiments.multirun.finetuning_scores import (
    comparison_lines,
    matrix_lines,
    read_by_split,
    read_scored,
    scores_path,
    table_lines,
)

FACTS = {"name": "toy", "head": "classification", "labels": ["0", "1"], "metrics": ["accuracy"], "texts": 1,
         "positive": None, "low": 0.0, "high": 1.0}  # fmt: skip
ANSWERS = [0, 1, 0, 1]


def write(folder: Path, seed: int, predicted: list[int], **changes: Any) -> None:
    right = sum(one == other for one, other in zip(ANSWERS, predicted, strict=True)) / 4
    scores = {"task": "toy", "split": "dev", "n": 4, "seed": seed, "set": "s", "metrics": {"accuracy": right},
              "unit": "texts", "notes": {},
              "baselines": {"majority": {"accuracy": 0.5}, "words": {"accuracy": 0.8}}, **changes}  # fmt: skip
    plain = {"scores": scores, "facts": FACTS}
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    (folder / "scores" / f"seed-{seed}.json").write_text(json.dumps(seal(plain)), encoding="utf-8")


def test_a_table_of_two_folders(tmp_path: Path) -> None:
    for seed, predicted in ((0, [0, 1, 0, 1]), (1, [0, 1, 0, 0]), (10, [0, 1, 1, 0])):
        write(tmp_path / "a", seed, predicted)
    write(tmp_path / "b", 0, [1, 1, 1, 0])
    groups = [(name, read_scored(tmp_path / name)) for name in ("a", "b")]
    lines = [" ".join(line.split()) for line in table_lines(groups)]
    assert lines == [
        "a: toy dev, 4 texts, 3 runs (seeds 0, 1, 10)",
        "accuracy 0.7500 ± 0.2500 baselines: majority 0.5000, words 0.8000 BELOW words",
        "b: toy dev, 4 texts, 1 runs (seeds 0)",
        "accuracy 0.2500 (one run) baselines: majority 0.5000, words 0.8000 BELOW majority and words",
    ]
    (line,) = comparison_lines(groups)
    assert line == "b - a: accuracy -0.5000 (one seed)"
    assert list(comparison_lines(groups[:1])) == []
    write(tmp_path / "b", 1, [0, 1, 1, 0])
    (line,) = comparison_lines([groups[0], ("b", read_scored(tmp_path / "b"))])
    assert line == "b - a: accuracy -0.3750 ± 0.4268", "0.25 of three seeds, 0.1768 of two"
    write(tmp_path / "other", 0, ANSWERS, set="other")
    with pytest.raises(ConfigurationError, match="a comparison needs scores on one set, got 2: other, s"):
        list(comparison_lines([groups[0], ("other", read_scored(tmp_path / "other"))]))


def test_a_matrix_of_folders_by_sets(tmp_path: Path) -> None:
    """Means over seeds; the gap is dev less the mean of the others."""
    for seed, predicted in ((0, [0, 1, 0, 1]), (1, [0, 1, 0, 0])):
        write(tmp_path / "en", seed, predicted)
        for name, other in (("de", [0, 1, 1, 0]), ("fr", [0, 1, 0, 0])):
            write(tmp_path / "en", seed, other, set=name)
            path = scores_path(tmp_path / "en", f"test_{name}", seed)
            path.parent.mkdir(exist_ok=True)
            (tmp_path / "en" / "scores" / f"seed-{seed}.json").rename(path)
        write(tmp_path / "en", seed, predicted)
    write(tmp_path / "fr", 0, [0, 1, 0, 0])
    found = list(matrix_lines([(name, read_by_split(tmp_path / name)) for name in ("en", "fr")]))
    assert [line.split() for line in found] == [
        ["accuracy", "dev", "de", "fr", "gap"],
        ["en", "0.8750", "0.5000", "0.7500", "0.2500"],
        ["fr", "0.7500", "-", "-", "-"],
    ]


def test_folders_that_hold_no_scores(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expected an output of clozeline finetune with scores, got none"):
        read_scored(tmp_path)
    write(tmp_path, 0, ANSWERS)
    write(tmp_path, 1, ANSWERS, set="other")
    with pytest.raises(ConfigurationError, match="scored on different sets"):
        read_scored(tmp_path)
    (tmp_path / "scores" / "seed-1.json").write_text('{"scores": ', encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"seed-1.json: is damaged .*; remove it"):
        read_scored(tmp_path)


def test_a_changed_digit_of_a_score_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0, ANSWERS)
    path = tmp_path / "scores" / "seed-0.json"
    assert len(read_scored(tmp_path)) == 1
    path.write_text(path.read_text().replace('"n": 4', '"n": 5'), encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"seed-0.json: is damaged \(checksum.*; remove it, and the same command"):
        read_scored(tmp_path)
