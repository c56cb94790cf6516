"""Copies by the share that passes: the factors by hand, and a run against its input."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.balance.pass_rates import SIZE_CLASSES, factors_of_rates
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline.dedup.dedup_documents import prose

RECIPE = """
corpus: copies
seed: 7
plan: {unit_bytes: 60000, shard_bytes: 400000}
clean: {language: null, filters: []}
dedup: {near: null}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {}
balance: {alpha: 1, max_copies: 4, rehydrate: {passes: "n_words > 30", most: 3}}
group: {}
corrupt: [{name: causal_lm, max_length: 128}]
"""
SIZES = (1, 2, 5)
PASSING = (0.5, 0.9, 0.7)
"""Shares of texts with more than 30 words, by size."""


def rates_of(*rows: tuple[int, int, int]) -> dict[str, dict[str, int]]:
    return {str(size): {"documents": documents, "passed": passed} for size, documents, passed in rows}


def test_factors_by_hand() -> None:
    # 600 of 1,000 documents pass: 0.6; the classes pass at 0.5, 0.8 and 0.7
    factors = factors_of_rates(rates_of((0, 600, 290), (2, 200, 160), (4, 200, 140), (8, 0, 0)), 3.0)
    overall = 590 / 1000
    assert factors[2] == 3.0
    assert factors[4] == pytest.approx(1 + 2 * (0.7 - overall) / (0.8 - overall), abs=1e-6)
    assert {factors[size] for size in SIZE_CLASSES[2:]} == {1.0}
    # single documents have no factor, also if they pass most often; 100 documents are enough
    factors = factors_of_rates(rates_of((0, 100, 100), (2, 100, 60), (4, 500, 100)), 3.0)
    assert (factors[2], factors[4]) == (3.0, 1.0)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 500, 400), (2, 300, 100)],  # copies pass less often
        [(0, 500, 100), (2, 99, 99)],  # too few to say
        [(0, 500, 500), (2, 500, 500)],  # all pass
        [(0, 0, 0)],
    ],
)
def test_nothing_is_repeated_without_a_reason(rows: list[tuple[int, int, int]]) -> None:
    assert set(factors_of_rates(rates_of(*rows), 10.0).values()) == {1.0}


CLASS = st.tuples(st.integers(0, 400), st.floats(0, 1))


@given(st.lists(CLASS, min_size=1, max_size=6), st.floats(1, 8), st.floats(0, 8))
def test_a_higher_maximum_only_adds(classes: list[tuple[int, float]], most: float, more: float) -> None:
    rows = [(size, documents, round(documents * share))
            for size, (documents, share) in zip((0, *SIZE_CLASSES), classes, strict=False)]  # fmt: skip
    lower, higher = (factors_of_rates(rates_of(*rows), each) for each in (most, most + more))
    assert all(1 <= lower[size] <= min(most, higher[size]) + 1e-6 for size in SIZE_CLASSES)
    # classes with a larger share never have a smaller factor
    known = {size: passed / documents for size, documents, passed in rows if documents >= 100 and size}
    ordered = [lower[size] for size in sorted(known, key=known.__getitem__)]
    assert ordered == sorted(ordered)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rates")
    lines = []
    for number in range(120 * len(SIZES)):
        kind, index = number % len(SIZES), number // len(SIZES)
        words = prose(number).split()[: 40 if index < 120 * PASSING[kind] else 20]
        lines += [" ".join(words)] * SIZES[kind]
    order = sorted(range(len(lines)), key=lambda line: line * 37 % 1009)
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": lines[line]}) + "\n" for line in order))
    (folder / "recipe.yaml").write_text(RECIPE)
    assert main(["--config", str(folder / "recipe.yaml"), f"input={folder}/a.jsonl", f"output={folder}/out"]) == 0
    return folder / "out"


def test_a_run_counts_its_documents(output: Path) -> None:
    documents = [row for path in sorted((output / "dedup/documents").glob("*")) for row in read_documents(path)]
    assert len(documents) == 360
    overall = sum(len(row.text.split()) > 30 for row in documents) / 360
    content = json.loads((output / "balance/factors.json").read_text())
    assert content["duplicates"]["2"] == "3"
    expected = 1 + 2 * (0.7 - overall) / (0.9 - overall)
    assert float(Fraction(content["duplicates"]["4"])) == pytest.approx(expected, abs=1e-5)
    assert content["duplicates"]["8"] == "1"
    counts = json.loads((output / "group/report.json").read_text())["counts"]
    assert abs(counts["copies"]["und"]["copies"] - 120 * (1 + 3 + expected)) < 4 * (120 / 4) ** 0.5
    assert verify_counts([str(output)]) == 0


@pytest.mark.parametrize(
    ("balance", "message"),
    [
        ('{rehydrate: {passes: "n_word > 3"}}', "balance.rehydrate.passes: no stage writes the column 'n_word'"),
        ('{rehydrate: {passes: "n_words >"}}', "balance.rehydrate.passes: 'n_words >' is no expression"),
        ('{rehydrate: {passes: "n_words > 3"}, duplicates: {2: 2}}', "got both; remove one of them"),
        ('{rehydrate: {passes: "n_words > 3", most: 0.5}}', "most"),
    ],
)
def test_mistakes_are_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], balance: str, message: str
) -> None:
    lines = [f"balance: {balance}" if line.startswith("balance") else line for line in RECIPE.splitlines()]
    (tmp_path / "recipe.yaml").write_text("\n".join(lines))
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path}/a.jsonl", f"output={tmp_path}/out"]
    assert main(words) == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "clean" / "documents").exists()
