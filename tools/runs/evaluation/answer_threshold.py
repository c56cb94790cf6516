"""The threshold of "no answer" (SQuAD 2.0, arXiv 1806.03822): chosen on a dev set, and stored with the run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.errors import IntegrityError
from clozeline.files import parse_json, publish_text
from clozeline.repair import repair_of
from clozeline.sealed_json import seal, unseal

_FILE: Final = "answer_threshold.json"


def best_threshold(
    differences: Sequence[float], answered: Sequence[float], unanswered: Sequence[float]
) -> tuple[float, float]:
    """Return the threshold with the highest mean score, and that mean, as the official script searches it.

    A question is answered if the score of no answer is above that of its best span by no more than the threshold. Of
    equal means, the lowest threshold is chosen; if no question should be answered, it is 1 below all differences.

    Args:
        differences: of each question, the score of no answer less that of its best span.
        answered: score of its best span, for example F1.
        unanswered: score of no answer: 1 for a question without one, else 0.
    """
    total = best = sum(unanswered)
    threshold = min(differences, default=0.0) - 1.0
    order = sorted(range(len(differences)), key=differences.__getitem__)
    for question, following in zip(order, [*order[1:], None], strict=True):
        total += answered[question] - unanswered[question]
        is_last = following is None or differences[following] > differences[question]  # equal ones change together
        if is_last and total > best:
            best, threshold = total, differences[question]
    return threshold, best / max(1, len(differences))


def store_threshold(run: Path, threshold: float, facts: dict[str, Any]) -> None:
    """Write the threshold of a run, with the checkpoint and the set on which it was chosen."""
    publish_text(run / _FILE, json.dumps(seal({"threshold": threshold, **facts}), sort_keys=True, indent=1) + "\n")


def stored_threshold(run: Path, checkpoint: str) -> float:
    """Return the threshold that was stored for a checkpoint; 0 if there is none.

    Raises:
        IntegrityError: the file is damaged.
    """
    path = run / _FILE
    if not path.is_file():
        return 0.0
    try:
        facts = unseal(parse_json(path.read_bytes()), path)
        return float(facts["threshold"]) if facts["checkpoint"] == checkpoint else 0.0
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{path}: not a threshold of answers ({error}); {repair_of(path)}") from error
