"""Cases of a matrix that `make test` runs; `make test-all` runs all of them."""

import pytest

STAGES = [*((stage, "fp32") for stage in (0, 1, 2, 3)), *((stage, "bf16") for stage in (1, 2, 3))]
"""ZeRO stages and precisions."""


def mark_slow_but(usual, cases):
    """Return the parameters of a test, of which all but the usual ones are marked slow.

    Raises:
        ValueError: a usual case is none of the cases.
    """
    usual, cases = list(usual), list(cases)
    if unknown := [case for case in usual if case not in cases]:
        raise ValueError(f"expected usual cases among {cases}, got {unknown}")
    return [
        case if case in usual else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
