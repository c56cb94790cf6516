"""A spoilt corpus: its truth is right, and its documents tell nothing of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.spoil_corpus import MAKERS, main


@pytest.fixture(scope="module")
def prose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draws = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(3000)])
    path = tmp_path_factory.mktemp("prose") / "prose.jsonl"
    texts = ("\n".join(" ".join(draws.choice(words, 60)) for _ in range(10)) for _ in range(60))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def spoil(prose: Path, output: Path, *words: str) -> int:
    foreign = output.parent / "foreign.txt"
    foreign.write_text("ein Text in einer anderen Sprache " * 10, encoding="utf-8")
    sizes = ("--words", "60", "--items", "40", "--good", "30")
    return main(["--text", str(prose), "--foreign", str(foreign), "--output", str(output), *sizes, *words])


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_truth_leads_to_each_document(prose: Path, tmp_path: Path) -> None:
    assert spoil(prose, tmp_path / "corpus") == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "corpus" / "documents").iterdir()}
    truth = rows_of(tmp_path / "corpus" / "truth.jsonl")
    texts: dict[int, dict[str, str]] = {}
    for fact in truth:
        document = json.loads(files[fact["file"]][fact["offset"] :].partition(b"\n")[0])
        assert set(document) == {"text", "url"}
        assert all(planted in document["text"] for planted in fact.get("planted", ()))
        texts.setdefault(fact["origin"], {})[fact["kind"]] = document["text"]
    assert sum(data.count(b"\n") for data in files.values()) == len(truth)
    assert {fact["kind"] for fact in truth} == {"clean", *MAKERS}
    for origin, copies in texts.items():
        if origin >= 0 and {"clean", "exact"} <= copies.keys():
            assert copies["clean"] == copies["exact"]
    # held-out prose, good texts and unseen items are in no document, leaked items in some
    everything = b"".join(files.values()).decode()
    for name, expected in (("prose", False), ("good", False), ("unseen", False), ("leaked", True)):
        held = rows_of(tmp_path / "corpus" / f"{name}.jsonl")
        assert held
        assert any(json.dumps(row["text"])[1:-1] in everything for row in held) == expected


def test_each_original_is_there_once_and_dirt_by_its_share(prose: Path, tmp_path: Path) -> None:
    shares = {"exact": 0.3, "near": 0.2, "boilerplate": 0.25, "salad": 0.4, "advert": 0.5, "language": 0.1}
    assert spoil(prose, tmp_path / "corpus", *(f"--{kind}={share}" for kind, share in shares.items())) == 0
    truth = rows_of(tmp_path / "corpus" / "truth.jsonl")
    originals = [fact["origin"] for fact in truth if fact["kind"] in ("clean", "boilerplate", "leak")]
    assert sorted(originals) == list(range(len(originals)))
    kinds = Counter(fact["kind"] for fact in truth)
    for kind, share in shares.items():
        expected = share * len(originals)
        assert abs(kinds[kind] - expected) < 4 * (expected * (1 - share)) ** 0.5, kind
    assert kinds["leak"] > 0


def test_addresses_and_order_tell_nothing_of_the_kind(prose: Path, tmp_path: Path) -> None:
    assert spoil(prose, tmp_path / "corpus") == 0
    truth = rows_of(tmp_path / "corpus" / "truth.jsonl")
    documents = [json.loads(line) for number in range(4)
                 for line in (tmp_path / f"corpus/documents/part-{number}.jsonl").read_text().splitlines()]  # fmt: skip
    hosts = [document["url"].split("/")[2] for document in documents]
    for kind in ("exact", "near", "salad", "advert"):
        spread = {host for host, fact in zip(hosts, truth, strict=True) if fact["kind"] == kind}
        assert len(spread) > 12
        positions = [number / len(truth) for number, fact in enumerate(truth) if fact["kind"] == kind]
        assert abs(np.mean(positions) - 0.5) < 4 * 0.29 / len(positions) ** 0.5


def test_equal_options_give_equal_bytes(prose: Path, tmp_path: Path) -> None:
    for name, words in (("a", ()), ("b", ()), ("c", ("--seed", "2"))):
        assert spoil(prose, tmp_path / name, *words) == 0
    content = {
        name: b"".join(path.read_bytes() for path in sorted((tmp_path / name).rglob("*.jsonl"))) for name in "abc"
    }
    assert content["a"] == content["b"] != content["c"]
