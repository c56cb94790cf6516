"""Convert rates of a configuration to exact integers, and apply them to sizes.

No float decides a count: 0.15 is 150,000 parts per million, and 0.15 of 510 tokens is 77 on every
machine.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from clozeline.arrays import Int64

MILLION: Final = 1_000_000


def _scale_exactly(value: float, scale: int, unit: str) -> int:
    exact = Decimal(repr(value)) * scale
    if exact != exact.to_integral_value():
        raise ValueError(f"{value!r} is not an integer number of {unit}")
    return int(exact)


def parts_per_million(rate: float) -> int:
    """Return a rate in parts per million (0.15 is 150000); at most six decimals are allowed."""
    return _scale_exactly(rate, MILLION, "parts per million: write at most six decimals")


def thousandths(mean: float) -> int:
    """Return a mean length in thousandths (3.0 is 3000); at most three decimals are allowed."""
    return _scale_exactly(mean, 1000, "thousandths: write at most three decimals")


def largest_remainders(weights: Sequence[float | Fraction], total: int) -> tuple[int, ...]:
    """Split `total` into integers in proportion to the weights, by the largest-remainder method.

    Each weight, finite and above 0, gets its exact share rounded down. The units that remain go,
    one each, to the largest remainders; among equal remainders, to the earlier weights. A float
    means the decimal that it prints as (0.1 is one tenth). All arithmetic is on fractions, so the
    result is the same on every machine.

    Example: `largest_remainders([2, 2, 1, 1], 10)` is (3, 3, 2, 2): the exact shares are 10/3,
    10/3, 5/3, 5/3.
    """
    exact = [
        weight if isinstance(weight, Fraction) else _decimal_fraction(weight) for weight in weights
    ]
    if not exact or min(exact) <= 0:
        raise ValueError(f"expected weights above 0, got {list(weights)}")

    divided = [divmod(weight * total, sum(exact)) for weight in exact]
    counts, remainders = zip(*divided, strict=True)
    by_remainder = sorted(range(len(exact)), key=lambda index: remainders[index], reverse=True)
    rounded_up = set(by_remainder[: total - sum(counts)])
    return tuple(int(count) + (index in rounded_up) for index, count in enumerate(counts))


def _decimal_fraction(weight: float) -> Fraction:
    # numpy scalars also print their type, hence float(...)
    return Fraction(repr(weight if isinstance(weight, int) else float(weight)))


def shares(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Split a million in proportion to the weights.

    Example: `shares([2, 2, 1, 1])` is (333333, 333333, 166667, 166667).
    """
    return largest_remainders(weights, MILLION)


def powers(numbers: Sequence[int], exponent: Decimal) -> tuple[Fraction, ...]:
    """Raise integers >= 1 to a power >= 0, rounded to 40 digits.

    Example: `powers([4, 10**6], Decimal("0.5"))` is (2, 1000).
    """
    with localcontext() as context:
        context.prec = 50
        results = [Decimal(number) ** exponent for number in numbers]
        context.prec = 40
        return tuple(Fraction(+result) for result in results)


def power_shares(amounts: Mapping[str, int], exponent: float) -> dict[str, Fraction]:
    """Return the share of each name, proportional to its amount to the power of `exponent`.

    Example: the exponent 0.5 gives `{"en": 900, "sw": 100}` the shares 3/4 and 1/4.
    """
    weights = powers([*amounts.values()], Decimal(repr(exponent)))
    total = sum(weights)
    return {name: weight / total for name, weight in zip(amounts, weights, strict=True)}


def task_weights(
    examples: Sequence[int], cap: int, temperature: float, weights: Sequence[float] = ()
) -> tuple[Fraction, ...]:
    """Return task rates, not normalized: the weights, or min(examples, cap) ** (1 / temperature).

    The formula is T5's (arXiv 1910.10683 §3.5.2).

    Example: `shares(task_weights([100, 300, 10**6], cap=400, temperature=1))` is (125000, 375000,
    500000).
    """
    if weights:
        return tuple(_decimal_fraction(weight) for weight in weights)
    with localcontext() as context:
        context.prec = 50
        exponent = 1 / Decimal(repr(temperature))
    return powers([min(number, cap) for number in examples], exponent)


def shares_to_keep(weights: Sequence[Fraction], examples: Sequence[int]) -> tuple[int, ...]:
    """Return the share of each task's examples to keep, so that tasks occur at their rates.

    Shares are in parts per million. The task with the highest rate per example keeps all of its
    examples; every task keeps at least one in a million.

    Example: `shares_to_keep([Fraction(1), Fraction(1)], [100, 400])` is (1000000, 250000).
    """
    per_example = [weight / number for weight, number in zip(weights, examples, strict=True)]
    return tuple(
        max(1, int(rate * MILLION / max(per_example) + Fraction(1, 2))) for rate in per_example
    )


def _must_convert(convert: Callable[[float], int]) -> AfterValidator:
    def check(value: float) -> float:
        convert(value)
        return value

    return AfterValidator(check)


Rate = Annotated[float, Field(ge=0, le=1), _must_convert(parts_per_million)]
"""A share in 0..1 with at most six decimals."""

MeanLength = Annotated[float, Field(ge=1, le=10_000), _must_convert(thousandths)]
"""A mean length in tokens or words, 1..10000, with at most three decimals."""


def count_at_rate(n: Int64, ppm: int, limit: Any = None) -> Int64:
    """Return rate x n as a count: rounded half up, at least 1, at most `limit` (default: n).

    The count is 0 where n or the rate is 0. `n` has any shape, with which `limit` broadcasts; the
    rate is in parts per million.

    Example: `count_at_rate(510, 150000)` is 77, `count_at_rate(4, 500000)` is 2,
    `count_at_rate(1, 150000)` is 1.
    """
    n = np.asarray(n, dtype=np.int64)
    if ppm == 0:
        return np.zeros_like(n)
    counts = np.maximum(1, (n * ppm + MILLION // 2) // MILLION)
    counts = np.minimum(counts, n if limit is None else limit)
    return np.where(n <= 0, 0, np.maximum(counts, 0))


def count_between(n: Int64, lowest_ppm: int, highest_ppm: int, bits32: NDArray[np.uint64]) -> Int64:
    """Draw a count from ceil(lowest x n) to floor(highest x n), at least 1, for each n.

    All counts are equally likely; the count is 0 where n is 0. Rates are in parts per million.
    Sizes have the shape [rows], and there are 32 random bits per row.

    Example: with the rates 0 and 1 every count in 1..n is equally likely.
    """
    lowest = np.maximum(1, -(-n * lowest_ppm // MILLION))
    choices = np.maximum(n * highest_ppm // MILLION - lowest, 0) + 1
    drawn = (bits32 * choices.astype(np.uint64)) >> np.uint64(32)
    return np.where(n > 0, lowest + drawn.astype(np.int64), 0)


def span_count(noise: Int64, mean_thousandths: int, gaps: Int64) -> Int64:
    """Return how many spans hold `noise` tokens: noise / mean, rounded half up.

    There is at least one span, and at most one for each noise token and each gap.

    Example: `span_count(85, 3000, 484)` is 28.
    """
    noise = np.asarray(noise, dtype=np.int64)
    counts = np.maximum(1, (2000 * noise + mean_thousandths) // (2 * mean_thousandths))
    return np.minimum(np.minimum(noise, gaps), counts)
