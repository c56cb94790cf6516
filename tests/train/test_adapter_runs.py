"""Runs that train an adapter next to another run's model: it alone trains and is saved, at every stage of ZeRO."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.errors import ClozelineError
from clozeline.model.checkpoints import build_checkpoint
from clozeline.registry import find
from clozeline.tools.models.export.exportable import exported_form
from clozeline.train.checkpoint.format import Index, steps_in
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.model.adapters.adapted_models import NAMES, case_of, takes_places
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import logged, saved, start

POSITIONS = {"model__position__maximum": 24}
"""Room for rows of 15 tokens and what an adapter takes."""
FAST = [next(name for name in NAMES if takes_places(name) is taken) for taken in (False, True)]
"""One that takes positions of the table from the rows, and one that takes none."""


def adapter(name: str) -> dict[str, Any]:
    """The options of the adapter's own tests, with dropout where it has some."""
    dropout = {"dropout": 0.1} if hasattr(find("clozeline.model.adapters", name).Options, "dropout") else {}
    return {"name": name, **case_of(name)[1], **dropout}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, one_rank: RankPool) -> Path:
    """A folder with a trained run, `base`, and the configuration of it."""
    folder = tmp_path_factory.mktemp("adapters")
    shards = write_masked_sets(folder / "sets")
    config = write_config(folder / "train.yaml", shards, folder / "base", evaluate__max_rows=0, **POSITIONS)
    assert one_rank.run(start, config, ["steps=3"]) == [(0, "")]
    return folder


def adapted(base: Path, output: str, name: str, *words: str) -> list[str]:
    words_of_run = [
        f"output={base / output}",
        f"model.init_from={base / 'base'}",
        f"model.adapter={json.dumps(adapter(name))}",
    ]
    return [*words_of_run, "optimizer.learning_rate=0.01", *words]


@pytest.mark.parametrize("name", FAST)
def test_a_run_saves_its_adapter_alone_and_resumes_to_the_bit(base: Path, one_rank: RankPool, name: str) -> None:
    config = base / "train.yaml"
    assert one_rank.run(start, config, adapted(base, f"{name}-whole", name, "steps=4")) == [(0, "")]
    assert one_rank.run(start, config, adapted(base, f"{name}-parts", name, "steps=2")) == [(0, "")]
    assert one_rank.run(start, config, adapted(base, f"{name}-parts", name, "steps=4")) == [(0, "")]
    whole, parts = base / f"{name}-whole", base / f"{name}-parts"
    assert logged(whole) == logged(parts)
    weights = saved(whole)
    assert weights.keys() == saved(parts).keys()
    assert all(torch.equal(tensor, saved(parts)[own]) for own, tensor in weights.items())
    assert all(own.startswith(f"adapters.{name}.") for own in weights)
    changed = [own for own, tensor in saved(parts, 2).items() if not torch.equal(tensor, weights[own])]
    assert sorted(changed) == sorted(weights)
    index = Index.read(steps_in(whole / "checkpoints")[-1])
    assert len(index.state["base"]) == 32
    assert "base" not in Index.read(steps_in(base / "base" / "checkpoints")[-1]).state


def test_an_export_holds_the_adapter_merged(base: Path, one_rank: RankPool) -> None:
    """The model of the export computes what the base with the adapter next to it does, and not what the base does."""
    assert one_rank.run(start, base / "train.yaml", adapted(base, "merged", "lora", "steps=3")) == [(0, "")]
    opened = open_run(base / "merged")
    exported = exported_form(opened)
    assert exported.config.adapter is None
    tensors = {"input_ids": torch.arange(10, 22)[None], "position_ids": torch.arange(12)[None]}
    tensors["lengths"] = torch.tensor([12])
    models = (build_checkpoint(exported), opened.model, open_run(base / "base").model)
    with torch.no_grad():
        merged, expected, alone = (model.logits(tensors)["masked_lm"] for model in models)
    assert (merged - expected).abs().max() <= 1e-5
    assert (alone - expected).abs().max() > 1e-3
    assert one_rank.run(start, base / "train.yaml", adapted(base, "prompted", "prompt", "steps=1")) == [(0, "")]
    with pytest.raises(ClozelineError, match="cannot be merged"):
        exported_form(open_run(base / "prompted"))
