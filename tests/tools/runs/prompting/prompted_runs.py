"""Small runs of each kind, which prompts can ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "cloze": ("masked_lm", {}),
    "causal": ("causal_lm", {"model__family": "decoder", "model__heads": {"lm": 1.0}}),
    "answer": (
        "span_corruption", {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}, "model__norm": "rms"},
    ),
    "text": ("text_infilling", {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}),
}  # fmt: skip


def prompted_run(folder: Path, shard_sets: Path, kind: str) -> Run:
    """Write a run whose scores of tokens differ widely, and load it."""
    label, changes = KINDS[kind]
    write_run(folder, shard_sets, [3], 1, label, **{"model__init": {"std": 0.3}, **changes})
    return open_run(folder)
