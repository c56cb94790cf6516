"""Factors by bucket: buckets by hand, and the copies of a run against the scores that its input holds."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.config import ScoreBuckets
from clozeline.pipeline.balance.score_buckets import name_buckets
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.seeding import fraction
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline.dedup.dedup_documents import prose

RECIPE = """
corpus: scores
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 20000, shard_bytes: 40000}
clean: {language: null, filters: [], annotate: [{name: gopher_quality, words: [1, 100000]}]}
dedup: {near: null}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {}
balance:
  alpha: 1
  max_copies: 3
  duplicates: {2: 2}
  buckets: {score: [extra.edu, extra.style], edges: [0.25, 0.5, 0.75], weights: [0, 1, 1.5, 2]}
group: {}
corrupt: [{name: causal_lm, max_length: 128}]
"""
WEIGHTS = (Fraction(0), Fraction(1), Fraction(3, 2), Fraction(2))


def scores_of(number: int) -> dict[str, float]:
    """Scores of a text: every eleventh has none, every third another scorer that may be higher."""
    edu = number * 37 % 101 / 100
    return {} if number % 11 == 0 else {"edu": edu, "style": 1 - edu} if number % 3 == 0 else {"edu": edu}


def weight_of(number: int) -> Fraction:
    if not (scores := scores_of(number)):
        return Fraction(1)
    return WEIGHTS[sum(max(scores.values()) >= edge for edge in (0.25, 0.5, 0.75))]


def run(folder: Path, name: str, *more: str) -> Path:
    words = ["--config", str(folder / "recipe.yaml"), f"input={folder}/a.jsonl", f"output={folder / name}", *more]
    assert main(words) == 0
    return folder / name


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("buckets")
    lines = [json.dumps({"text": prose(number), "number": number, **scores_of(number)}) for number in range(120)]
    lines += [json.dumps({"text": prose(number), "number": number, **scores_of(number)}) for number in range(0, 120, 5)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return run(folder, "out")


@pytest.fixture(scope="module")
def numbers(output: Path) -> dict[bytes, int]:
    paths = sorted((output / "dedup/documents").glob("*"))
    return {row.uid: row.extra["number"] for path in paths for row in read_documents(path)}


def factor_of(number: int) -> Fraction:
    return min(weight_of(number) * (2 if number % 5 == 0 else 1), Fraction(3))


def test_each_document_has_the_copies_of_its_bucket(output: Path, numbers: dict[bytes, int]) -> None:
    assert sorted(numbers.values()) == list(range(120))
    expected = Counter()
    for uid, number in numbers.items():
        if not is_heldout(uid, 0.1, 7):
            factor = factor_of(number)
            expected[uid] = int(factor) + (fraction(uid, "balance", 7) < factor % 1)
    assert set(expected.values()) == {0, 1, 2, 3}
    (folder,) = (path for path in (output / "group").iterdir() if (path / "train").is_dir())
    shards = open_shards(folder / "train")
    blocks = [shards.read_block(block).fixed for block in range(len(shards.index))]
    pairs = {(uid.tobytes(), copy) for fixed in blocks
             for uid, copy in zip(fixed["document_uid"], fixed["copy"].tolist(), strict=True)}  # fmt: skip
    # a sample of packed documents names its first one only
    assert {uid for uid, _ in pairs} <= {uid for uid, copies in expected.items() if copies}
    counts = json.loads((output / "group/report.json").read_text())["counts"]
    assert counts["copies"]["und"]["copies"] == expected.total()


def test_counts_tokens_and_checks(output: Path, numbers: dict[bytes, int], capsys: pytest.CaptureFixture[str]) -> None:
    counts = json.loads((output / "balance/report.json").read_text())["counts"]
    labels = [sum(max(scores_of(number).values()) >= edge for edge in (0.25, 0.5, 0.75))
              for number in range(120) if scores_of(number)]  # fmt: skip
    names = ("below 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 and above")
    assert counts["buckets"] == {**{name: labels.count(index) for index, name in enumerate(names)}, "no score": 11}
    tokens, total = open_shards(output / "encode"), Fraction(0)
    for block in range(len(tokens.index)):
        rows = tokens.read_block(block)
        for uid, length in zip(rows.fixed["document_uid"], rows.columns["token_ids"].lengths.tolist(), strict=True):
            if not is_heldout(uid.tobytes(), 0.1, 7):
                total += length * factor_of(numbers[uid.tobytes()])
    content = json.loads((output / "balance/factors.json").read_text())
    assert (content["format"], content["buckets"]["weights"]) == (3, ["0", "1", "3/2", "2"])
    assert content["texts"]["und"]["balanced_tokens"] == round(total)
    assert verify_counts([str(output)]) == 0
    assert "Documents by bucket of their score" in (output / "report.html").read_text(encoding="utf-8")
    stored = (output / "balance/buckets.bin").read_bytes()
    uids = [stored[at : at + 16] for at in range(0, len(stored), 17)]
    assert uids == sorted(uid for uid, number in numbers.items() if weight_of(number) != 1)


def test_tasks_change_nothing_and_edges_repeat_only_what_follows(output: Path) -> None:
    def files(out: Path, stage: str) -> dict[str, bytes]:
        paths = list((out / stage).rglob("*.arrow"))
        assert paths
        return {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}

    other = run(output.parent, "three", "executor={name: local, tasks: 3, workers: 1}")
    assert files(other, "group") == files(output, "group")
    assert (other / "balance/factors.json").read_bytes() == (output / "balance/factors.json").read_bytes()
    before = {path: path.stat().st_mtime_ns for path in (other / "encode").rglob("*.arrow")}
    run(output.parent, "three", "balance.buckets={score: n_words, edges: [30], weights: [1, 0.5]}")
    assert {path: path.stat().st_mtime_ns for path in (other / "encode").rglob("*.arrow")} == before
    assert files(other, "group") != files(output, "group")


def bucket(row: dict[str, Any], **keys: Any) -> int | None:
    made: ScoreBuckets = validate(ScoreBuckets, {"edges": [0.3, 0.6], "weights": [0, 1, 2], **keys}, "buckets")
    return made.find_bucket({"uid": bytes(16), **row})


def test_buckets_by_hand() -> None:
    found = [bucket({"extra": {"q": score}}, score="q") for score in (-1, 0.29, 0.3, 0.5, 0.6, 7, None)]
    assert found == [0, 0, 1, 1, 2, 2, None]
    assert bucket({"extra": {}}, score="q") is None
    assert bucket({"extra": {"q": 0.1, "r": 0.5}}, score=["q", "r"]) == 1
    assert bucket({"n_words": 1, "extra": {"n_words": 0}}, score="n_words") == 2
    assert bucket({"n_words": 1, "extra": {"n_words": 0}}, score="extra.n_words") == 0
    for wrong in ("high", True):
        with pytest.raises(ConfigurationError, match=r"balance\.buckets\.score: expected numbers in 'q', got"):
            bucket({"extra": {"q": wrong}}, score="q")
    assert name_buckets([0.3, 0.6]) == ["below 0.3", "0.3 to 0.6", "0.6 and above"]


@pytest.mark.parametrize(("buckets", "message"), [
    ("{score: quality, edges: [0.5], weights: [1, 2]}", "no stage writes the column 'quality'"),
    ("{score: n_word, edges: [0.5], weights: [1, 2]}", "did you mean 'n_words'"),
    ("{score: [], edges: [0.5], weights: [1, 2]}", "expected the name of a column"),
    ("{score: n_words > 3, edges: [0.5], weights: [1, 2]}", "expected the name of a column"),
    ("{score: n_words, edges: [0.5, 0.5], weights: [1, 2, 3]}", "expected ascending numbers"),
    ("{score: n_words, edges: [0.5, 0.2], weights: [1, 2, 3]}", "expected ascending numbers"),
    ("{score: n_words, edges: [0.5, .inf], weights: [1, 2, 3]}", "edges"),
    ("{score: n_words, edges: [], weights: [1]}", "edges"),
    ("{score: n_words, edges: [0.5], weights: [1]}", "expected 2 weights for 1 edges"),
    ("{score: n_words, edges: [0.5], weights: [0, 0]}", "all are 0"),
    ("{score: n_words, edges: [0.5], weights: [0, -1]}", "weights"),
])  # fmt: skip
def test_mistakes_are_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], buckets: str, message: str
) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path}/a.jsonl", f"output={tmp_path}/out"]
    assert main([*words, f"balance.buckets={buckets}"]) == 64
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "clean" / "documents").exists()
