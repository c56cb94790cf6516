"""A study of two variants and a part, on sets of walks over a small vocabulary."""

import yaml

from tests.train.masked_set import plain_config, write_masked_sets

STUDY = """
title: a small study
flops: 3.0e+7
seeds: 1
evaluations: 2
orderings: [{measure: masked, lower: plain, higher: mixed, said: none}]
"""
VARIANTS = """
variants:
  mixed:
    phases: [{sets: {one: 3.0, two: 1.0}, share: 0.7}, {sets: {two: 1.0}, share: 0.3}]
    measures: {masked: one, other: two}
    train: {model: {layers: 2}}
  plain: {phases: [{sets: {one: 1.0}}], measures: {masked: one}, pairs: [pll]}
"""


def write_study(folder, *, flops=30000000.0, one="one", two="two"):
    """Write a study of runs of so many operations, on two sets by their names.

    Return its folder.
    """
    study = folder / "study"
    study.mkdir(parents=True)
    plain = plain_config(
        data__shards="x",
        output="y",
        log__tensorboard=False,
        evaluate__max_rows=24,
        model__position__maximum=48,
    )

    del plain["data"]["shards"], plain["output"], plain["steps"], plain["schedule"]["steps"]
    variants = VARIANTS.replace("one", one).replace("two", two)
    parts = {
        "study": yaml.safe_load(STUDY.replace("3.0e+7", f"{flops:.3e}") + variants),
        "train": plain,
    }
    (study / "study.yaml").write_text(yaml.safe_dump(parts))
    return study


def write_walks(folder):
    for name in ("one", "two"):
        write_masked_sets(folder / name, name=name)
    return folder
