"""Choose steps, learning rate and number of seeds of a fine-tuning from its model and rows.

The constants were chosen on development rows of three tasks, then kept for others.
"""

import math
from collections.abc import Sequence
from typing import Final

from clozeline.pipeline.set_kinds import kind_of
from clozeline.train.data.stream.phases import Input

_BERT_WIDTH: Final = 768
_BERT_RATE: Final = 3e-5
"""Width and learning rate of BERT base (arXiv 1810.04805 §A.3)."""
_HIGHEST_RATE: Final = 3e-3
"""Highest learning rate of a narrow body."""
_ROWS_READ: Final = 16_000
"""Rows that a fine-tuning reads, within the limits of its passes."""
_MIN_PASSES: Final = 3
"""Passes of BERT over large tasks."""
_MAX_PASSES: Final = 16
_MIN_STEPS: Final = 40
"""Fewer steps would leave no time for a warm-up."""
_SEEDS_BY_ROWS: Final = ((1_000, 5), (10_000, 3))
"""Rows up to which a result needs this many seeds; above, one is enough."""


def hold_labeled_rows(sources: Sequence[Input]) -> bool:
    """Return whether sets hold labeled texts rather than texts alone."""
    return all(kind_of(source.manifest.objective) for source in sources)


def plan_task_steps(rows: float, global_batch: int) -> int:
    """Return the steps of a fine-tuning: 16,000 rows, but 3 to 16 passes.

    Example: 500 steps of 32 for 1,000 rows, and 649 for SST-2's 6,920 sentences, which are three
    passes.
    """
    passes = min(max(_ROWS_READ / rows, _MIN_PASSES), _MAX_PASSES)
    return max(_MIN_STEPS, math.ceil(passes * rows / global_batch))


def plan_learning_rate(width: int) -> float:
    """Return the peak learning rate of AdamW for a body of a width, rounded to two digits.

    Example: 3e-05 at BERT's 768, 0.0011 at 128.
    """
    rate = _BERT_RATE * (_BERT_WIDTH / width) ** 2
    return float(f"{min(rate, _HIGHEST_RATE):.2g}")


def plan_seeds(rows: float) -> int:
    """Return how many seeds a result needs: 5 for up to 1,000 rows, 3 for up to 10,000, else 1."""
    return next((seeds for most, seeds in _SEEDS_BY_ROWS if rows <= most), 1)
