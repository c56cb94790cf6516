"""Exponent-smoothed language sampling: the tokens of each language in training, and the copies that give them."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from clozeline.pipeline.kernels.rates import largest_remainders, powers


def apportion(tokens: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Return the tokens of each language in training, proportional to tokens ** alpha, with the total unchanged.

    The sampling of multilingual models: arXiv 1901.07291 §3.1 (XLM), 1911.02116 (XLM-R, alpha 0.3), from 0 (equal
    shares) to 1 (natural proportions). Powers are decimals and shares are rounded by largest remainders, so every
    machine computes the same numbers.

    Example: `apportion({"en": 900, "sw": 100}, 0.5)` is {"en": 750, "sw": 250}: the square roots are as 3 to 1.
    """
    names = sorted(tokens)
    weights = powers([tokens[name] for name in names], Decimal(repr(alpha)))
    return dict(zip(names, largest_remainders(weights, sum(tokens.values())), strict=True))


def copy_factors(
    tokens: Mapping[str, Mapping[str, int]], alpha: float, weights: Mapping[str, float]
) -> dict[str, dict[str, Fraction]]:
    """Return the mean copies per document, by language and source, that give each language its share by `apportion`.

    `weights` are extra factors of sources, default 1.

    Example: 900 tokens in en and 100 in sw at alpha 0.5 give 5/6 and 5/2.
    """
    totals = {language: sum(by_source.values()) for language, by_source in tokens.items()}
    return {
        language: {
            source: Fraction(target, totals[language]) * Fraction(repr(float(weights.get(source, 1))))
            for source in sorted(tokens[language])
        }
        for language, target in apportion(totals, alpha).items()
    }
