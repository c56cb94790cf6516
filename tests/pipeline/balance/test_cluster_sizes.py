"""Copies by the size of clusters: sizes against the copies that the input holds, copies against the table."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.balance.cluster_sizes import WriteClusterSizes
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.seeding import fraction
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline.dedup.dedup_documents import edited, prose

RECIPE = """
corpus: copies
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 20000, shard_bytes: 40000}
clean: {language: null, filters: []}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {}
balance: {alpha: 1, max_copies: 3, duplicates: {2: 1.25, 4: 2.5, 6: 40}}
group: {}
corrupt: [{name: masked_lm, max_length: 258, grouping: document}]
"""
SIZES = [1 + n % 4 + 2 * (n % 3 == 0) for n in range(40)]


def head(text: str) -> str:
    return " ".join(text.split()[:10])


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty texts, each with 0 to 3 exact copies, every third with two near copies that are equal."""
    folder = tmp_path_factory.mktemp("copies")
    lines = []
    for number in range(40):
        text = prose(number)
        lines += [text] * (1 + number % 4) + [edited(text, 60)] * (2 * (number % 3 == 0))
    order = sorted(range(len(lines)), key=lambda line: line * 37 % 101)
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": lines[line]}) + "\n" for line in order))
    (folder / "recipe.yaml").write_text(RECIPE)
    assert main(["--config", str(folder / "recipe.yaml"), f"input={folder}/a.jsonl", f"output={folder}/out"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def sizes(output: Path) -> dict[bytes, int]:
    """Documents that each kept one stands for, from the input alone."""
    by_head = {head(prose(number)): size for number, size in enumerate(SIZES)}
    paths = sorted((output / "dedup/documents").glob("*"))
    return {row.uid: by_head[head(row.text)] for path in paths for row in read_documents(path)}


def test_sizes_are_those_of_the_input(output: Path, sizes: dict[bytes, int]) -> None:
    rows = np.load(output / "balance/cluster_sizes.npy")
    assert len(sizes) == 40
    assert {uid.ljust(16, b"\0"): size for uid, size in rows.tolist()} == {
        uid: size for uid, size in sizes.items() if size > 1
    }
    assert rows["uid"].tolist() == sorted(rows["uid"].tolist())
    counts = json.loads((output / "balance/report.json").read_text())["counts"]
    assert counts["clusters"] == {"kept": len(rows), "documents": int(rows["size"].sum())}


def test_documents_are_grouped_as_often_as_the_table_says(output: Path, sizes: dict[bytes, int]) -> None:
    table = {1: Fraction(1), 2: Fraction(5, 4), 4: Fraction(5, 2), 6: Fraction(3)}
    expected = Counter()
    for uid, size in sizes.items():
        factor = table[max(least for least in table if least <= size)]
        if not is_heldout(uid, 0.1, 7):
            expected[uid] = int(factor) + (fraction(uid, "balance", 7) < factor % 1)
    assert set(expected.values()) == {1, 2, 3}
    counts = json.loads((output / "group/report.json").read_text())["counts"]
    assert counts["copies"]["und"]["copies"] == expected.total()
    (folder,) = (path for path in (output / "group").iterdir() if (path / "train").is_dir())
    shards = open_shards(folder / "train")
    rows = [shards.read_block(block) for block in range(len(shards.index))]
    pairs = {
        (uid.tobytes(), copy)
        for block in rows
        for uid, copy in zip(block.fixed["document_uid"], block.fixed["copy"].tolist(), strict=True)
    }
    assert Counter(uid for uid, _ in pairs) == expected


def test_balanced_tokens_are_expected_tokens_of_the_copies(output: Path, sizes: dict[bytes, int]) -> None:
    table = {1: 1, 2: 1.25, 4: 2.5, 6: 3}
    tokens = open_shards(output / "encode")
    total = 0.0
    for block in range(len(tokens.index)):
        rows = tokens.read_block(block)
        lengths = rows.columns["token_ids"].lengths
        for uid, length in zip(rows.fixed["document_uid"], lengths.tolist(), strict=True):
            if not is_heldout(uid.tobytes(), 0.1, 7):
                total += length * table[max(least for least in table if least <= sizes[uid.tobytes()])]
    content = json.loads((output / "balance/factors.json").read_text())
    assert content["format"] == 2
    assert content["duplicates"] == {"2": "5/4", "4": "5/2", "6": "40"}
    assert content["texts"]["und"]["balanced_tokens"] == round(total)
    assert verify_counts([str(output)]) == 0


def test_without_clusters_there_are_no_sizes(tmp_path: Path) -> None:
    counts = WriteClusterSizes(tmp_path / "dedup").run(0, Output(tmp_path / "balance"))
    assert counts["clusters"] == {"kept": 0, "documents": 0}
    assert len(np.load(tmp_path / "balance/cluster_sizes.npy")) == 0


def test_sizes_need_dedup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("dedup: {}\n", ""))
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path}/a.jsonl", f"output={tmp_path}/out"]
    assert main(words) == 64
    assert "expected the recipe's key 'dedup'" in capsys.readouterr().err
