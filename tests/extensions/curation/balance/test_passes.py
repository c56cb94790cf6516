"""Counts and factors of a token set against sums over its documents."""

import logging
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.extensions.curation.balance.stage import apportion, compute_copy_factors
from clozeline.pipeline.shards.layout import is_heldout
from tests.extensions.curation.balance.balanced import (
    NAMES,
    SOURCES,
    read_factors,
    run_balanced,
    write_languages,
)


def trained(rows):
    """Documents that are not held out."""
    uids = rows.fixed["document_uid"]
    return [row for row in range(len(rows)) if not is_heldout(uids[row].tobytes(), 0.1, 1)]


def test_tokens_of_each_language_and_source_are_counted(tmp_path):
    rows = write_languages(tmp_path)
    counts = run_balanced(tmp_path, {}, "balance")["balance"]
    chosen = trained(rows)
    sizes = rows.columns["token_ids"].lengths
    wanted = {}

    for row in chosen:
        language = wanted.setdefault(NAMES[rows.fixed["language"][row]], {})
        one = language.setdefault(SOURCES[rows.fixed["source_group"][row]], Counter())
        one.update(documents=1, tokens=int(sizes[row]))

    assert counts["texts"] == wanted
    assert "pairs" not in counts
    assert counts["documents_in"] == len(rows)
    assert counts["skipped"] == {"held_out": len(rows) - len(chosen)}


def test_factors_give_the_shares_of_the_law(tmp_path):
    rows = write_languages(tmp_path)
    run_balanced(tmp_path, {"alpha": 0.5, "max_copies": 255}, "balance")
    found = read_factors(tmp_path)
    sizes = rows.columns["token_ids"].lengths
    tokens = np.bincount(rows.fixed["language"][trained(rows)], sizes[trained(rows)])
    law = np.sqrt(tokens) / np.sqrt(tokens).sum()

    for code, name in enumerate(NAMES):
        facts = found["texts"][name]
        factors = found["factors"][name]

        assert facts["share"] == round(tokens[code] / tokens.sum(), 6)
        assert facts["balanced_share"] == pytest.approx(law[code], abs=1e-4)
        assert facts["epochs"] == pytest.approx(law[code] * tokens.sum() / tokens[code], abs=1e-3)

        assert {round(float(Fraction(one)), 6) for one in factors.values()} == {facts["epochs"]}

    assert sum(facts["balanced_tokens"] for facts in found["texts"].values()) == tokens.sum()


def test_texts_and_pairs_are_balanced_apart(tmp_path):
    """Pairs are counted by both sides, and their tokens stay as many as they were, like those of
    the texts."""
    rows = write_languages(tmp_path, pairs=True)
    counts = run_balanced(tmp_path, {"alpha": 0.0, "max_copies": 255}, "balance")["balance"]
    found = read_factors(tmp_path)
    sizes = rows.columns["token_ids"].lengths
    others = rows.columns["target_ids"].lengths

    for kind, paired in (("texts", False), ("pairs", True)):
        chosen = [row for row in trained(rows) if (others[row] > 0) == paired]
        total = int((sizes + others)[chosen].sum())
        facts = found[kind].values()

        assert (
            sum(one["tokens"] for one in facts)
            == sum(one["balanced_tokens"] for one in facts)
            == total
        )
        assert [one["balanced_share"] for one in facts] == pytest.approx(
            [1 / len(facts)] * len(facts), abs=1e-4
        )

    assert sorted(counts["pairs"]) == ["en-fr", "fr-fr"]
    assert set(found["factors"]) == {*NAMES, "en-fr", "fr-fr"}


def test_max_copies_bounds_the_factors_and_says_so(tmp_path, caplog):
    write_languages(tmp_path)
    with caplog.at_level(logging.WARNING):
        run_balanced(tmp_path, {"alpha": 0.0, "max_copies": 2}, "balance")
    found = read_factors(tmp_path)

    assert found["factors"]["sw"] == {"books": "2", "web": "2"}
    assert found["texts"]["sw"]["epochs"] == 2.0

    tokens = {name: facts["tokens"] * facts["epochs"] for name, facts in found["texts"].items()}

    for name, facts in found["texts"].items():
        assert facts["balanced_share"] == pytest.approx(
            tokens[name] / sum(tokens.values()), abs=1e-4
        )

    run_balanced(tmp_path, {"alpha": 1.0, "sources": {"books": 2.5}}, "balance")

    assert read_factors(tmp_path)["factors"] == {
        name: {"books": "5/2", "web": "1"} for name in NAMES
    }

    (said,) = [record.getMessage() for record in caplog.records if "sw" in record.getMessage()]

    assert "copies per document are needed, max_copies allows 2" in said
    assert not any("en:" in record.getMessage() for record in caplog.records)


amounts = st.dictionaries(
    st.text("abcdef", min_size=2, max_size=2), st.integers(1, 10**12), min_size=1, max_size=8
)


@given(tokens=amounts, root=st.sampled_from([1, 2, 4]))
def test_tokens_are_within_one_of_their_exact_share(tokens, root):
    """With powers of whole numbers the exponent 1 / root gives those numbers back, so that shares
    are fractions."""
    powered = {name: amount**root for name, amount in tokens.items()}
    total = sum(powered.values())
    roots = sum(tokens.values())
    found = apportion(powered, 1 / root)

    assert sum(found.values()) == total
    assert list(found) == sorted(tokens)
    assert apportion(dict(reversed(powered.items())), 1 / root) == found

    for name, amount in found.items():
        assert abs(amount - Fraction(total * tokens[name], roots)) < 1

    assert root > 1 or found == tokens


def test_factors_are_shares_over_tokens_times_the_weight_of_the_source():
    tokens = {"sw": {"web": 60, "books": 40}, "en": {"web": 900}}

    assert compute_copy_factors(tokens, 0.5, {}) == {
        "en": {"web": Fraction(5, 6)},
        "sw": {"books": Fraction(5, 2), "web": Fraction(5, 2)},
    }
    assert compute_copy_factors(tokens, 0.5, {"books": 0.1})["sw"] == {
        "books": Fraction(1, 4),
        "web": Fraction(5, 2),
    }
    assert compute_copy_factors(tokens, 1.0, {}) == {"en": {"web": 1}, "sw": {"books": 1, "web": 1}}
