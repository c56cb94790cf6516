"""A race of two entries on walks over a small vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.heldout_halves import HALVES, split_heldout
from clozeline.tools.experiments.multirun.race_rules import half_path
from tests.train.masked_set import write_masked_sets
from tests.train.synthetic import plain_config

TRAIN, HELDOUT = "corrupt/masked_lm/train", "corrupt/masked_lm/heldout"


def write_sets(folder: Path) -> Path:
    """Write a training set, and a held-out one with its halves; return the folder of the pipeline's output."""
    write_masked_sets(folder / "corrupt" / "masked_lm", rows=320, heldout=90, heldout_shards=2)
    split_heldout(folder / HELDOUT, folder / half_path(""))
    return folder


def entry(said: str = "as it was", **changes: Any) -> dict[str, Any]:
    """An entry as plain data; `changes` are dotted keys of its training with `__` for the dot."""
    changes = {
        "data__shards": TRAIN, "model__position": {"kind": "rope"}, "model__dropout": {}, "zero__stage": 0,
        "data__micro_batch": 8, **changes,
    }  # fmt: skip
    plain = plain_config(**changes)
    for key in {"output", "seed", "log"} - changes.keys():
        del plain[key]
    return {"said": said, "train": plain}


def write_race(folder: Path, sets: Path, **entries: dict[str, Any]) -> Path:
    """Write race.yaml and its entries, of which `plain` is the baseline; return their folder."""
    race = {
        "title": "a small race", "baseline": "plain", "cores": 2, "every": 4, "seeds": 2,
        "heldout": HELDOUT, "made_with": "a test",
        "sets": {name: open_shards(sets / name).digest for name in (TRAIN, *map(half_path, HALVES))},
    }  # fmt: skip
    folder.mkdir(parents=True)
    for name, plain in {"race": race, "pipeline": {}, **entries}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    return folder
