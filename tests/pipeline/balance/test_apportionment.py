"""Apportionment against published shares and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.balance.passes import apportion, copy_factors

THREE = {"en": 10**9, "fr": 10**7, "sw": 10**5}
amounts = st.dictionaries(st.text("abcdef", min_size=2, max_size=2), st.integers(1, 10**12), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("alpha", "shares"),
    [
        (1.0, [0.9900, 0.0099, 0.0001]),
        (0.7, [0.9602, 0.0382, 0.0015]),
        (0.5, [0.9009, 0.0901, 0.0090]),
        (0.3, [0.7609, 0.1911, 0.0480]),
        (0.0, [0.3333, 0.3333, 0.3333]),
    ],
)
def test_shares_of_languages_of_three_sizes(alpha: float, shares: list[float]) -> None:
    """The shares of n ** alpha, worked out by hand for 10**9, 10**7 and 10**5 tokens."""
    total = sum(THREE.values())
    assert [round(one / total, 4) for one in apportion(THREE, alpha).values()] == shares


@given(tokens=amounts, root=st.integers(1, 4))
def test_tokens_are_within_one_of_their_exact_share(tokens: dict[str, int], root: int) -> None:
    """With powers of whole numbers the exponent 1 / root gives those numbers back, so that shares are fractions."""
    powered = {name: amount**root for name, amount in tokens.items()}
    total, roots = sum(powered.values()), sum(tokens.values())
    if root == 3:  # a third has no decimal
        return
    found = apportion(powered, 1 / root)
    assert sum(found.values()) == total
    assert list(found) == sorted(tokens)
    for name, amount in found.items():
        assert abs(amount - Fraction(total * tokens[name], roots)) < 1
    if root == 1:
        assert found == tokens


@given(tokens=amounts, alphas=st.lists(st.integers(0, 100), min_size=2, max_size=2))
def test_a_smaller_exponent_never_takes_from_the_smallest_language(tokens: dict[str, int], alphas: list[int]) -> None:
    low, high = (apportion(tokens, alpha / 100) for alpha in sorted(alphas))
    smallest = min(tokens, key=lambda name: tokens[name])
    assert low[smallest] >= high[smallest] - 1
    assert min(low.values()) >= 1


def test_the_order_of_the_languages_changes_nothing() -> None:
    assert apportion(dict(reversed(THREE.items())), 0.7) == apportion(THREE, 0.7)
    assert apportion({"a": 1, "b": 1, "c": 1}, 0.0) == apportion({"c": 1, "b": 1, "a": 1}, 0.0)


def test_factors_are_shares_over_tokens_times_the_weight_of_the_source() -> None:
    tokens = {"sw": {"web": 60, "books": 40}, "en": {"web": 900}}
    assert copy_factors(tokens, 0.5, {}) == {
        "en": {"web": Fraction(5, 6)},
        "sw": {"books": Fraction(5, 2), "web": Fraction(5, 2)},
    }
    assert copy_factors(tokens, 0.5, {"books": 0.1})["sw"] == {"books": Fraction(1, 4), "web": Fraction(5, 2)}
    assert copy_factors(tokens, 1.0, {}) == {"en": {"web": 1}, "sw": {"books": 1, "web": 1}}
