"""Pretraining objectives, one per file: each corrupts sample rows that a model learns to restore.

An objective maps samples (grouped, uncorrupted token rows) to examples (the features that its file
declares). It is stateless: its random choices follow from (seed, label, variant, sample uid).
`Skip` lists the reasons why a sample gives no example.
"""

from clozeline.pipeline.corrupt.objectives._masked_rows import (
    MaskedOptions,
    MaskedRow,
    RoleOptions,
    choose_tokens,
)
from clozeline.pipeline.corrupt.objectives._objective import (
    Objective,
    RandomKeys,
    Skip,
    build_objective,
)

__all__ = [
    "MaskedOptions",
    "MaskedRow",
    "Objective",
    "RandomKeys",
    "RoleOptions",
    "Skip",
    "build_objective",
    "choose_tokens",
]
