"""Golden bytes of the objectives: `python -m tests.pipeline.corrupt.objectives.golden` adds those
of new versions.

Run it with `make objectives` after an objective was added, or its VERSION raised.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from clozeline.pipeline.registries import OBJECTIVES
from tests.pipeline.corrupt.objectives.runner import wide
from tests.pipeline.corruption_cases import samples, vocabulary

__all__ = ["GOLDEN", "digest", "golden", "write_golden"]

GOLDEN = Path(__file__).parent / "golden.json"


def digest(name):
    """Return the hash of 20 examples of each of two variants: every array, its type and its
    name."""
    objective = wide(name, vocabulary(1000))
    rows = samples(
        [64, 300, 568, 17, 5, 3, 2, 40, 41, 200] * 2, objective.vocabulary, seed=11, sentences=6
    )
    found = hashlib.sha256()

    for variant in (0, 1):
        examples, skips = objective.corrupt(
            rows,
            np.full(len(rows), variant, np.uint16),
            seed=1,
        )
        found.update(skips.tobytes())
        for column, ragged in sorted(examples.columns.items()):
            found.update(f"{column} {ragged.values.dtype.str}".encode())
            found.update(ragged.values.tobytes() + ragged.offsets.tobytes())

    return found.hexdigest()


def golden(name):
    return {"version": OBJECTIVES.load_class(name).VERSION, "sha256": digest(name)}


def write_golden(path=GOLDEN, names=None, entry_of=golden):
    """Write the entries of all objectives, or of other names.

    Raises:
        ValueError: one gives other bytes under the same VERSION.
    """
    stored = json.loads(path.read_text())
    names = OBJECTIVES.available() if names is None else names
    found = {name: entry_of(name) for name in names}
    for name, entry in found.items():
        before = stored.get(name, entry)
        if entry["version"] == before["version"] and entry != before:
            raise ValueError(
                f"{name}: other bytes than VERSION {entry['version']} had; raise the VERSION, or "
                "undo it"
            )

    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_golden()
