"""Runs beside one model in memory: each gives the scores of its own, and the model alone gives its
own again."""

import re
from pathlib import Path

import pytest
import torch

from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.shared_base import SharedBase
from tests.refusals import refused
from tests.train.masked_set import FIRST_WORD, write_config
from tests.train.runs import complete

PAGE = Path(__file__).parents[3] / "docs" / "adapters.md"
RUNS = {
    "lora": ["model.adapter={name: lora, rank: 2}"],
    "again": ["model.adapter={name: lora, rank: 2}", "seed=9"],
    "prompted": [
        "model.adapter={name: prompt, length: 2}",
        "model.heads={masked_lm: {transform: false}}",
    ],
}
"""Runs beside `runs/own`: two of one kind, and some with other heads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank, shards):
    """A run, those beside it, and one beside another."""
    folder = tmp_path_factory.mktemp("shared")
    position = {"model__position": {"maximum": 20}, "model__vocab_multiple": 64}
    config = write_config(
        folder / "train.yaml", shards, folder / "runs" / "own", evaluate__max_rows=0, **position
    )

    for name in ("own", "other"):
        complete(
            one_rank, config, ["steps=2", f"output={folder / 'runs' / name}", f"seed={len(name)}"]
        )

    runs = {
        name: [*words, f"model.init_from={folder / 'runs' / 'own'}"] for name, words in RUNS.items()
    }
    runs["elsewhere"] = [*RUNS["lora"], f"model.init_from={folder / 'runs' / 'other'}"]

    for name, words in runs.items():
        output = f"output={folder / 'runs' / name}"
        complete(one_rank, config, ["steps=2", "optimizer.learning_rate=0.05", output, *words])

    return folder


def rows():
    ids = torch.arange(FIRST_WORD, FIRST_WORD + 24).reshape(2, 12)
    return {
        "input_ids": ids,
        "position_ids": torch.arange(12)[None],
        "lengths": torch.tensor([12, 9]),
    }


def scores(model):
    with torch.no_grad():
        (found,) = model.logits(rows()).values()
    return found


def own_scores(run):
    """The scores of a model that holds this run alone."""
    return scores(TrainedModel.open(run).model)


def test_each_run_gives_its_scores_and_the_model_alone_gives_its_own_again(folder):
    names = list(RUNS)
    shared = SharedBase({name: folder / "runs" / name for name in names})
    alone = scores(shared.use(None))

    assert torch.equal(alone, own_scores(folder / "runs" / "own"))

    for name in [*names, *reversed(names)]:
        found = scores(shared.use(name))
        assert torch.equal(found, own_scores(folder / "runs" / name)), name
        assert (found - alone).abs().max() > 1e-3, name
        assert torch.equal(scores(shared.use(None)), alone), name

    tables = [
        parameter
        for name, parameter in shared.model.named_parameters()
        if name.endswith("tokens.weight")
    ]

    assert len(tables) == 1


def test_the_page_shows_it(folder, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "SharedBase" in block)
    monkeypatch.chdir(folder)
    names = {}
    exec(code, names)

    assert names["model"].adapters.active is None


def test_runs_beside_other_models_are_refused(folder):
    runs = folder / "runs"

    with refused(r"elsewhere has another base model than .*lora: family\."):
        SharedBase({"one": runs / "lora", "two": runs / "elsewhere"})

    with refused("own trained no adapter"):
        SharedBase({"one": runs / "own"})
    with refused("no run 'two'; the runs are: one"):
        SharedBase({"one": runs / "lora"}).use("two")
