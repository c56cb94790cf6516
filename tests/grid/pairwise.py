"""All pairs of settings in few rows: a covering array by a seeded greedy search, without forbidden
combinations."""

import random
from itertools import combinations

_CANDIDATES = 20


def covering_rows(factors, forbidden, count, seed):
    """Return rows with every pair of settings of different factors that an allowed row can have.

    A forbidden combination is a factor → settings. Each row is the best of some random ones around
    a pair that no earlier row has; once there is no such pair, random rows follow.
    """
    draw = random.Random(seed)
    missing = [
        ((one, here), (other, there))
        for one, other in combinations(factors, 2)
        for here in factors[one]
        for there in factors[other]
    ]

    draw.shuffle(missing)
    rows = []
    while missing or len(rows) < count:
        pair = missing[0] if missing else ()
        filled = (fill(dict(pair), factors, forbidden, draw) for _ in range(_CANDIDATES))
        if found := [row for row in filled if row is not None]:
            left = set(missing)
            rows.append(max(found, key=lambda row: len(left & pairs_of(row))))

        covered = pairs_of(rows[-1]) | {pair}  # also one that no allowed row has
        missing = [one for one in missing if one not in covered]

    assert len(rows) == count, "more rows are needed for all pairs"

    return rows


def pairs_of(row):
    """Return the pairs of settings of a row whose factors are in their order."""
    return set(combinations(row.items(), 2))


def is_forbidden(row, forbidden):
    """Return whether a row, also an incomplete one, has all settings of a forbidden combination."""
    return any(
        all(key in row and row[key] in values for key, values in rule.items()) for rule in forbidden
    )


def fill(row, factors, forbidden, draw):
    """Complete a row factor by factor at random; None if no setting of a factor is allowed."""
    if is_forbidden(row, forbidden):
        return None
    for factor in draw.sample(list(factors), len(factors)):
        if factor not in row:
            allowed = [
                one for one in factors[factor] if not is_forbidden({**row, factor: one}, forbidden)
            ]
            if not allowed:
                return None
            row[factor] = draw.choice(allowed)

    return {factor: row[factor] for factor in factors}
