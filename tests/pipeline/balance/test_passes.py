"""Counts and factors of a token set against sums over its documents."""

from __future__ import annotations

import logging
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards.layout import is_heldout
from tests.pipeline.balance.balanced import NAMES, SOURCES, read_factors, run_balanced, write_languages


def trained(rows: Rows) -> list[int]:
    """Documents that are not held out."""
    uids = rows.fixed["document_uid"]
    return [row for row in range(len(rows)) if not is_heldout(uids[row].tobytes(), 0.1, 1)]


def test_tokens_of_each_language_and_source_are_counted(tmp_path: Path) -> None:
    rows = write_languages(tmp_path)
    counts = run_balanced(tmp_path, {}, "balance")["balance"]
    chosen, sizes = trained(rows), rows.columns["token_ids"].lengths
    wanted: Any = {}
    for row in chosen:
        language = wanted.setdefault(NAMES[rows.fixed["language"][row]], {})
        one = language.setdefault(SOURCES[rows.fixed["source_group"][row]], Counter())
        one.update(documents=1, tokens=int(sizes[row]))
    assert counts["texts"] == wanted
    assert "pairs" not in counts
    assert counts["documents_in"] == len(rows)
    assert counts["skipped"] == {"held_out": len(rows) - len(chosen)}


def test_factors_give_the_shares_of_the_law(tmp_path: Path) -> None:
    rows = write_languages(tmp_path)
    run_balanced(tmp_path, {"alpha": 0.5, "max_copies": 255}, "balance")
    found, sizes = read_factors(tmp_path), rows.columns["token_ids"].lengths
    tokens = np.bincount(rows.fixed["language"][trained(rows)], sizes[trained(rows)])
    law = np.sqrt(tokens) / np.sqrt(tokens).sum()
    for code, name in enumerate(NAMES):
        facts, factors = found["texts"][name], found["factors"][name]
        assert facts["share"] == round(tokens[code] / tokens.sum(), 6)
        assert facts["balanced_share"] == pytest.approx(law[code], abs=1e-4)
        assert facts["epochs"] == pytest.approx(law[code] * tokens.sum() / tokens[code], abs=1e-3)
        assert set(factors) == set(SOURCES)
        assert {round(float(Fraction(one)), 6) for one in factors.values()} == {facts["epochs"]}
    assert sum(facts["balanced_tokens"] for facts in found["texts"].values()) == tokens.sum()


def test_texts_and_pairs_are_balanced_apart(tmp_path: Path) -> None:
    """Pairs are counted by both sides, and their tokens stay as many as they were, like those of the texts."""
    rows = write_languages(tmp_path, pairs=True)
    counts = run_balanced(tmp_path, {"alpha": 0.0, "max_copies": 255}, "balance")["balance"]
    found, sizes = read_factors(tmp_path), rows.columns["token_ids"].lengths
    others = rows.columns["target_ids"].lengths
    for kind, paired in (("texts", False), ("pairs", True)):
        chosen = [row for row in trained(rows) if (others[row] > 0) == paired]
        total = int((sizes + others)[chosen].sum())
        facts = found[kind].values()
        assert sum(one["tokens"] for one in facts) == sum(one["balanced_tokens"] for one in facts) == total
        assert [one["balanced_share"] for one in facts] == pytest.approx([1 / len(facts)] * len(facts), abs=1e-4)
    assert sorted(counts["pairs"]) == ["en-fr", "fr-fr"]
    assert set(found["factors"]) == {*NAMES, "en-fr", "fr-fr"}


def test_max_copies_bounds_the_factors_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_languages(tmp_path)
    with caplog.at_level(logging.WARNING):
        run_balanced(tmp_path, {"alpha": 0.0, "max_copies": 2}, "balance")
    found = read_factors(tmp_path)
    assert found["factors"]["sw"] == {"books": "2", "web": "2"}
    assert found["texts"]["sw"]["epochs"] == 2.0
    tokens = {name: facts["tokens"] * facts["epochs"] for name, facts in found["texts"].items()}
    for name, facts in found["texts"].items():
        assert facts["balanced_share"] == pytest.approx(tokens[name] / sum(tokens.values()), abs=1e-4)
    (said,) = [record.getMessage() for record in caplog.records if "sw" in record.getMessage()]
    assert "copies of a document wanted, max_copies allows 2" in said
    assert not any("en:" in record.getMessage() for record in caplog.records)


def test_a_source_has_a_factor_of_its_own(tmp_path: Path) -> None:
    write_languages(tmp_path)
    run_balanced(tmp_path, {"alpha": 1.0, "sources": {"books": 2.5}}, "balance")
    assert read_factors(tmp_path)["factors"] == {name: {"books": "5/2", "web": "1"} for name in NAMES}


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_and_their_order_change_nothing(tmp_path: Path, shards: int) -> None:
    written = []
    for folder, count in ((tmp_path / "a", 2), (tmp_path / "b", shards)):
        write_languages(folder, shards=count)
        run_balanced(folder, {"alpha": 0.7}, "balance", backwards=folder.name == "b")
        written.append((folder / "balance" / "factors.json").read_bytes())
    assert written[0] == written[1]
