"""Runs that train an adapter next to another run's model: it alone trains and is saved, at every
stage of ZeRO."""

import json

import pytest
import torch

from clozeline.model.registries import ADAPTERS
from clozeline.train.checkpoint.stored_checkpoint import Index, steps_in
from tests.model.adapters.adapted_models import NAMES, case_of, takes_places
from tests.train.masked_set import write_config
from tests.train.runs import logged, saved, start

POSITIONS = {"model__position__maximum": 24}
"""Room for rows of 15 tokens and what an adapter takes."""
FAST = [next(name for name in NAMES if takes_places(name) is taken) for taken in (False, True)]
"""One that takes positions of the table from the rows, and one that takes none."""


def adapter(name):
    """The options of the adapter's own tests, with dropout where it has some."""
    dropout = {"dropout": 0.1} if hasattr(ADAPTERS.load_class(name).Options, "dropout") else {}
    return {"name": name, **case_of(name)[1], **dropout}


@pytest.fixture(scope="module")
def base(tmp_path_factory, one_rank, shards):
    """A folder with a trained run, `base`, and the configuration of it."""
    folder = tmp_path_factory.mktemp("adapters")
    config = write_config(
        folder / "train.yaml", shards, folder / "base", evaluate__max_rows=0, **POSITIONS
    )

    assert one_rank.run(start, config, ["steps=3"]) == [(0, "")]

    return folder


def adapted(base, output, name, *words):
    words_of_run = [
        f"output={base / output}",
        f"model.init_from={base / 'base'}",
        f"model.adapter={json.dumps(adapter(name))}",
    ]

    return [*words_of_run, "optimizer.learning_rate=0.01", *words]


@pytest.mark.parametrize("name", FAST)
def test_a_run_saves_its_adapter_alone_and_resumes_to_the_bit(base, one_rank, name):
    config = base / "train.yaml"

    assert one_rank.run(start, config, adapted(base, f"{name}-whole", name, "steps=4")) == [(0, "")]
    assert one_rank.run(start, config, adapted(base, f"{name}-parts", name, "steps=2")) == [(0, "")]
    assert one_rank.run(start, config, adapted(base, f"{name}-parts", name, "steps=4")) == [(0, "")]

    whole = base / f"{name}-whole"
    parts = base / f"{name}-parts"

    assert logged(whole) == logged(parts)

    weights = saved(whole)

    assert weights.keys() == saved(parts).keys()
    assert all(torch.equal(tensor, saved(parts)[own]) for own, tensor in weights.items())
    assert all(own.startswith(f"adapters.{name}.") for own in weights)

    changed = [
        own for own, tensor in saved(parts, 2).items() if not torch.equal(tensor, weights[own])
    ]

    assert sorted(changed) == sorted(weights)

    index = Index.read(steps_in(whole / "checkpoints")[-1])

    assert len(index.state["base"]) == 32
    assert "base" not in Index.read(steps_in(base / "base" / "checkpoints")[-1]).state
