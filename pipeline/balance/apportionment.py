"""Apportionment: the tokens that each language should have in training, and the copies that give them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from clozeline.pipeline.kernels.rates import largest_remainders, powers


def apportion(tokens: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Return whole tokens for each language in proportion to its own to the power alpha; their sum stays.

    The law of multilingual models: arXiv 1901.07291 §3.1 (XLM), 1911.02116 (XLM-R, alpha 0.3). Powers are decimals and
    shares are rounded by largest remainders, so every machine finds the same numbers.

    Args:
        tokens: tokens of each language, above 0.
        alpha: 0 (all languages alike) to 1 (their own proportions).

    Example: `apportion({"en": 900, "sw": 100}, 0.5)` is {"en": 750, "sw": 250}: the square roots are as 3 to 1.
    """
    names = sorted(tokens)
    wanted = largest_remainders(
        powers([tokens[name] for name in names], Decimal(repr(alpha))), sum(tokens[name] for name in names)
    )
    return dict(zip(names, wanted, strict=True))


def copy_factors(
    tokens: Mapping[str, Mapping[str, int]], alpha: float, weights: Mapping[str, float]
) -> dict[str, dict[str, Fraction]]:
    """Return the mean copies of the documents of each language and source that `apportion` asks for.

    Args:
        tokens: tokens by language and source, above 0.
        alpha: exponent of `apportion`.
        weights: factor of a source beside that of the language; 1 where a source has none.

    Example: 900 tokens in en and 100 in sw at alpha 0.5 give 5/6 and 5/2.
    """
    of_language = {language: sum(by_source.values()) for language, by_source in tokens.items()}
    wanted = apportion(of_language, alpha)
    return {
        language: {
            source: Fraction(wanted[language], of_language[language]) * Fraction(repr(float(weights.get(source, 1))))
            for source in sorted(tokens[language])
        }
        for language in wanted
    }
