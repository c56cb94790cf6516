"""Cases of a matrix that `make test` runs; `make test-all` runs all of them."""

import pytest

STAGES = [
    *((stage, "fp32") for stage in (0, 1, 2, 3)),
    *((stage, "bf16") for stage in (1, 2, 3)),
]
"""ZeRO stages and precisions."""


def mark_slow_but(usual, cases):
    """Return the parameters of a test, of which all but the usual ones are marked slow."""
    usual = list(usual)
    cases = list(cases)

    assert all(case in cases for case in usual), usual

    return [
        case
        if case in usual
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def mark_slow_after(count, cases):
    """Return the parameters of a test, of which all but the first ones are marked slow."""
    return mark_slow_but([*cases][:count], cases)
