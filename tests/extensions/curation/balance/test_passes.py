"""Counts and factors of a token set against sums over its documents."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.extensions.curation.balance.config import BalanceConfig
from clozeline.extensions.curation.balance.stage import mix, share_out
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.shards.layout import is_heldout
from tests.extensions.curation.balance.balanced import (
    NAMES,
    SOURCES,
    read_factors,
    recipe,
    run_balanced,
    write_languages,
)


def trained(rows):
    """Documents that are not held out."""
    uids = rows.fixed["document_uid"]
    return [row for row in range(len(rows)) if not is_heldout(uids[row].tobytes(), 0.1, 1)]


def counted(rows):
    """Tokens of the training documents of texts and of pairs, by language and source."""
    found = {"texts": Counter(), "pairs": Counter()}
    for row in trained(rows):
        sides = [rows.columns[name][row].tolist() for name in ("token_ids", "target_ids")]
        other = rows.columns["target_language"][row].tolist()
        language = "-".join(NAMES[code] for code in (rows.fixed["language"][row], *other))
        group = f"{language} {SOURCES[rows.fixed['source_group'][row]]}"
        found["pairs" if sides[1] else "texts"][group] += len(sides[0]) + len(sides[1])
    return found


@pytest.mark.parametrize("pairs", [False, True])
def test_tokens_of_each_language_and_source_are_counted(tmp_path, pairs):
    rows = write_languages(tmp_path, pairs=pairs)
    counts = run_balanced(tmp_path, {}, "balance")["balance"]

    assert counts["tokens"] == {kind: found for kind, found in counted(rows).items() if found}
    assert counts["documents_in"] == len(rows)
    assert counts["skipped"] == {"held_out": len(rows) - len(trained(rows))}


def balanced_tokens(out, rows):
    """Tokens of all copies by the factors of the file, of texts and of pairs."""
    factors = read_factors(out)["factors"]
    return {
        kind: {group: float(count * Fraction(factors[group])) for group, count in found.items()}
        for kind, found in counted(rows).items()
    }


def shares(tokens, part):
    """Shares of the languages (part 0) or sources (1)."""
    sums = Counter()
    for group, count in tokens.items():
        sums[group.split(" ")[part]] += count
    return {name: count / sums.total() for name, count in sums.items()}


def test_factors_give_the_shares_of_the_law(tmp_path):
    """Texts and pairs are balanced apart, and keep their tokens."""
    rows = write_languages(tmp_path, pairs=True)
    run_balanced(tmp_path, {"alpha": 0.5, "max_copies": 255}, "balance")
    for kind, after in balanced_tokens(tmp_path, rows).items():
        before = counted(rows)[kind]
        roots = {name: share**0.5 for name, share in shares(before, 0).items()}
        law = {name: root / sum(roots.values()) for name, root in roots.items()}
        assert shares(after, 0) == pytest.approx(law, abs=1e-3)
        assert sum(after.values()) == pytest.approx(before.total(), abs=5)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_sources_have_their_shares_and_languages_theirs_in_each(tmp_path, alpha):
    rows = write_languages(tmp_path, pairs=True)
    mixed = {"alpha": alpha, "max_copies": 255}
    run_balanced(tmp_path, mixed, "balance")
    natural = balanced_tokens(tmp_path, rows)
    run_balanced(tmp_path, {**mixed, "sources": {"books": 0.75}}, "balance")
    after = balanced_tokens(tmp_path, rows)
    of_all = {**after["texts"], **after["pairs"]}

    assert shares(of_all, 1) == pytest.approx({"books": 0.75, "web": 0.25}, abs=1e-3)
    for source in SOURCES:
        of_source, before = (
            {group: n for found in each.values() for group, n in found.items() if source in group}
            for each in (after, natural)
        )
        assert shares(of_source, 0) == pytest.approx(shares(before, 0), abs=2e-3)


def test_sources_without_a_share_keep_their_proportions_in_the_rest():
    tokens = {"en web": 600, "en books": 100, "sw web": 200, "sw mail": 100}
    assert share_out(tokens, {"books": 0.5}) == {
        "en web": 333,
        "en books": 500,
        "sw web": 111,
        "sw mail": 56,
    }
    assert share_out(tokens, {}) == tokens
    # decimals: in binary, the sum of the shares would be above 1, and the rest below 0
    named = {"books": 0.1, "mail": 0.2, "web": 0.7}
    assert share_out(tokens, named)["en books"] == 100
    # a source without any text leaves its share to the others
    assert share_out({"en web": 10, "en books": 30}, {"lost": 0.5}) == {
        "en web": 10,
        "en books": 30,
    }


@pytest.mark.parametrize(
    ("balance", "said"),
    [
        ({"alpha": 0.0, "max_copies": 2}, {"sw": (33.3,), "fr": (33.3,), "en": (33.3,)}),
        ({"sources": {"books": 0.9}, "max_copies": 2}, {"books": (90.0,), "web": (10.0,)}),
        ({"sources": {"books": 0.5}, "max_copies": 2}, {}),
    ],
)
def test_max_copies_bounds_the_factors_and_says_who_gets_what(tmp_path, balance, said):
    write_languages(tmp_path)
    counts = run_balanced(tmp_path, balance, "balance")["balance"]
    factors = [Fraction(factor) for factor in read_factors(tmp_path)["factors"].values()]
    notes = stage_of(recipe(tmp_path, balance), "balance").row(counts).notes
    lines = dict(note.split(": ", 1) for note in notes if "max_copies=2" in note)

    assert (max(factors) == 2) == bool(said)
    assert lines.keys() == said.keys()
    assert all(len(f"balance: {name}: {line}") <= 80 for name, line in lines.items())
    for name, numbers in said.items():
        assert all(f"{number}%" in lines[name] for number in numbers)


amounts = st.dictionaries(
    st.text("abcdef", min_size=2, max_size=2), st.integers(1, 10**12), min_size=1, max_size=8
)


@given(tokens=amounts, root=st.sampled_from([1, 2, 4]))
def test_tokens_are_within_one_of_their_exact_share(tokens, root):
    """With powers of whole numbers the exponent 1 / root gives those numbers back, so that shares
    are fractions."""
    powered = {f"{name} web": amount**root for name, amount in tokens.items()}
    total = sum(powered.values())
    _, found, _ = mix({"texts": powered}, BalanceConfig(alpha=1 / root))

    for name, amount in tokens.items():
        exact = Fraction(total * amount, sum(tokens.values()))
        assert abs(found[f"{name} web"] - exact) < 1

    assert root > 1 or found == powered
