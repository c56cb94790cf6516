"""Frozen parameters: byte for byte as they were, unknown to the optimizer, and without dropout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import Model, build_model
from clozeline.train.checkpoint.format import WEIGHT
from clozeline.train.checkpoint.part_reader import CheckpointReader
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.cost_estimate import estimate_memory
from clozeline.train.optim.weights.freezing import freeze, frozen_count, frozen_modules
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.synthetic import VOCABULARY, tiny


def small(**changes: Any) -> Model:
    return build_model(tiny(**changes).model, VOCABULARY, {"pad": 0, "mask": 3})


def frozen_names(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_parts_by_name() -> None:
    model = small(model__type_vocab_size=2)
    everything = {name for name, _ in model.named_parameters()}
    assert freeze(model, ()) == []
    assert frozen_names(model) == set()
    (line,) = freeze(model, ("embeddings",))
    tables = {"family.tokens.weight", "family.stack.position.table.weight", "family.stack.embeddings.types.weight"}
    assert frozen_names(model) == tables
    size = sum(dict(model.named_parameters())[name].numel() for name in tables)
    assert frozen_count(model) == size
    assert line.startswith(f"frozen     3 parameters, {size:,} of ")
    freeze(model, (r"family\.stack\.layers\.0\..*",))
    first = {name for name in everything if name.startswith("family.stack.layers.0.")}
    assert frozen_names(model) == tables | first
    freeze(model, ("body",))
    assert frozen_names(model) == {name for name in everything if name.startswith("family.")}


def test_modules_that_only_compute() -> None:
    model = nn.ModuleDict({"a": nn.Sequential(nn.Linear(2, 2), nn.Dropout()), "b": nn.Linear(2, 2), "c": nn.Dropout()})
    model["a"].requires_grad_(False)
    assert list(frozen_modules(model)) == [model["a"], model["a"][0]]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (("bodies",), r"freeze: 'bodies' matches no parameter: expected body, embeddings, or a regular expression"),
        (("family",), "matches no parameter"),
        (("(",), r"freeze: '\(' is no regular expression"),
        (("body", r"heads\..*"), "leaves nothing to train"),
    ],
    ids=["near", "part-of-a-name", "broken", "all"],
)
def test_mistakes(patterns: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        freeze(small(), patterns)


def test_one_word_or_a_list(tmp_path: Path) -> None:
    config = write_config(tmp_path / "train.yaml", tmp_path, tmp_path / "run")
    assert load_config(TrainConfig, config).freeze == ()
    assert load_config(TrainConfig, config, ["freeze=body"]).freeze == ("body",)
    assert load_config(TrainConfig, config, ["freeze=[embeddings, x.*]"]).freeze == ("embeddings", "x.*")


def test_frozen_numbers_have_neither_gradients_nor_moments(tmp_path: Path) -> None:
    config = load_config(TrainConfig, write_config(tmp_path / "train.yaml", tmp_path, tmp_path / "run"))
    found = estimate_memory(config, 1000, 1, 0, frozen=900)
    assert (found.weights, found.gradients, found.optimizer) == (4000, 400, 800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set, and a configuration with dropout and weight decay."""
    folder = tmp_path_factory.mktemp("frozen")
    write_config(
        folder / "train.yaml", write_masked_sets(folder), folder / "first", data__micro_batch=4, steps=2,
        schedule={"name": "linear", "warmup": 1, "steps": 40}, optimizer__weight_decay=0.1, model__type_vocab_size=0,
    )  # fmt: skip
    return folder


def start(world: World, config: Path, words: list[str]) -> tuple[int, str]:
    try:
        return run(load_config(TrainConfig, config, words), joined=world), ""
    except ClozelineError as error:
        return error.exit_code, str(error)


def started(ranks: RankPool, folder: Path, output: str, *words: str) -> Path:
    """Run; the first run of the folder, which lends its weights, is made where it is missing."""
    if output != "first" and not (folder / "first").is_dir():
        started(ranks, folder, "first")
    source = [] if output == "first" else [f"model.init_from={folder / 'first'}", "steps=5"]
    answers = ranks.run(start, folder / "train.yaml", [f"output={folder / output}", *source, *words])
    assert {code for code, _ in answers} == {0}, answers
    return folder / output


def weights(run: Path) -> dict[str, torch.Tensor]:
    return read_weights(*find_checkpoint(run))


STAGES = [
    pytest.param(1, ("zero.stage=0",), id="one-0"),
    pytest.param(1, ("zero.stage=3",), id="one-3"),
    pytest.param(1, ("zero.stage=1", "precision=bf16"), id="one-bf16", marks=pytest.mark.slow),
    *(
        pytest.param(2, (f"zero.stage={stage}", f"activation_checkpointing={again}"), id=f"two-{stage}",
                     marks=pytest.mark.slow)
        for stage, again in ((0, "true"), (1, "false"), (2, "true"), (3, "true"))
    ),
]  # fmt: skip


@pytest.mark.parametrize("freezing", ["body", "embeddings"])
@pytest.mark.parametrize(("size", "words"), STAGES)
def test_only_the_rest_changes(
    request: pytest.FixtureRequest, folder: Path, size: int, words: tuple[str, ...], freezing: str
) -> None:
    """Byte for byte after five steps with weight decay and dropout, with no state in the optimizer."""
    ranks = request.getfixturevalue("one_rank" if size == 1 else "two_ranks")
    name = f"{freezing}-{request.node.callspec.id}"
    tuned = started(ranks, folder, name, *words, f"freeze={freezing}")
    before, after = weights(folder / "first"), weights(tuned)
    body = {one for one in before if one.startswith("family." if freezing == "body" else "family.tokens")}
    body |= {"family.stack.position.table.weight"}
    exact = {one: before[one].to(after[one].dtype) for one in before}  # of bf16 runs: what they hold is rounded
    assert {one for one in before if torch.equal(exact[one], after[one])} == body
    directory, index = find_checkpoint(tuned)
    reader = CheckpointReader(directory, index)
    for one in before:
        held = {WEIGHT} if one in body else {WEIGHT, "exp_avg", "exp_avg_sq"}
        assert set(index.parameters[one].keys) == held, one
    assert reader.parameter(WEIGHT, "family.tokens.weight").shape == before["family.tokens.weight"].shape


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def test_a_frozen_body_has_no_dropout(one_rank: RankPool, folder: Path) -> None:
    """The losses are those of a body whose configuration has none; without freezing they are not."""
    none: list[Any] = ["model.dropout={hidden: 0.0, attention: 0.0, embedding: 0.0}", "checkpoint.every=null"]
    strong = ["model.dropout={hidden: 0.5, attention: 0.1, embedding: 0.1}", "checkpoint.every=null"]
    plain = losses(started(one_rank, folder, "plain", *none, "freeze=body"))
    assert losses(started(one_rank, folder, "still", *strong, "freeze=body")) == plain
    assert losses(started(one_rank, folder, "moving", *strong))[0] != plain[0]


def test_a_frozen_run_resumes_to_the_bit(one_rank: RankPool, folder: Path) -> None:
    whole = started(one_rank, folder, "whole", "freeze=body")
    parts = started(one_rank, folder, "parts", "freeze=body", "steps=3")
    answers = one_rank.run(start, folder / "train.yaml", [f"output={parts}", "steps=5", "freeze=body"])
    assert answers == [(0, "")]
    assert losses(parts) == losses(whole)
    assert all(torch.equal(tensor, weights(parts)[name]) for name, tensor in weights(whole).items())
    code, said = one_rank.run(start, folder / "train.yaml", [f"output={parts}", "steps=6"])[0]
    assert code == 64
    assert "freeze: ['body'] in the checkpoint, [] now" in said
