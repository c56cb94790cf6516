"""Recipes of published trainings do what the sources do: built objects are asked, not the files."""

import math
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from clozeline.configuration.config import read_composed, to_data
from clozeline.model.build import build_model
from clozeline.model.heads._head import VocabularyHead
from clozeline.model.initialization import initial_distributions
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.layer import FeedForward
from clozeline.model.layers.norm import NORMS
from clozeline.model.layers.position import Learned
from clozeline.model.layers.stack import LAYER
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from tests.pipeline.corruption_cases import MASK, samples, vocabulary
from tests.published.tables import (
    NAMES,
    TRAININGS,
    entries_of,
    facts_of,
    pipeline_of,
    rows_of,
    training_of,
)
from tests.recipes import RECIPES

DIFFERENT = {
    ("nanogpt", "parameters"): 124_373_760 + 768,  # a position for the last label
    ("dnabert", "parameters"): 89_196_549 + 2 * 769,  # no pooler; two more special tokens
    ("dnabert", "vocabulary"): 4103,
    # one update earlier: the source's first update has a rate of 0
    ("babyllama", "learning_rate"): [
        *[(0, 1.25e-6), (100, 1.2625e-4), (200, 2.5e-4), (11100, 1.25e-4), (21999, 0.0)],
    ],
    # gains of 25 norms, which stay 1
    ("modded_nanogpt", "parameters"): 123_532_032 + 25 * 768,
    # of matrices, times 0.2 in each step; the table has twice as much
    ("modded_nanogpt", "learning_rate"): [
        *[(0, 1.8e-3), (2000, 1.8e-3), (4400, 1.8e-3), (5300, 9e-4), (6199, 1e-6)],
    ],
    # attention is added in full, from smaller weights
    ("modded_nanogpt", "initial"): {
        **facts_of("modded_nanogpt")["initial"],
        "attention_out": {"std": 0.010416667, "form": "uniform"},
    },
    ("cramming", "parameters"): 119_589_889 - 1,  # the scale of positions is not trained
    ("cramming", "decays"): {**facts_of("cramming")["decays"], "biases": None},  # those of norms
    # of steps, which are more frequent at first; in a phase of equal batches it is the mean
    ("cramming", "learning_rate"): [
        *[(0, 2.547e-4), (38000, 6.953e-4), (42000, 9.206e-4), (44841, 5e-4), (46598, 0.0)],
    ],
    # nothing decays with a decay of 0
    ("nanot5", "decays"): dict.fromkeys(("matrices", "embeddings", "head", "norms"), False),
    # one more relative position; norms in layers, and three others
    ("ltg_bert", "parameters"): 98_229_760 + 768 + 2 * (12 * (2 * 768 + 2048) + 3 * 768),
    ("hplt_encoder", "parameters"): 124_984_832 + 768 + 2 * (12 * (2 * 768 + 2560) + 3 * 768),
    # without gate and mix of layers; one more relative position; norms
    ("gpt_bert", "parameters"): 28_117_760 + 384 + 2 * (12 * (2 * 384 + 1280) + 3 * 384),
    # relative positions are one of the tables; see the column `ours`
    ("ltg_bert", "decays"): {**facts_of("ltg_bert")["decays"], "positions": None},
    ("hplt_encoder", "decays"): {**facts_of("hplt_encoder")["decays"], "positions": None},
    ("gpt_bert", "decays"): {
        **facts_of("gpt_bert")["decays"],
        "positions": None,
        "mix_weights": None,
    },
    # the warm-up rises from 1/125 of the peak
    ("gpt_bert", "learning_rate"): [
        *[(0, 1.128e-4), (62, 7.1064e-3), (124, 1.41e-2), (3906, 7.91573607e-3), (7811, 0.0)],
    ],
    # four steps instead of a line
    ("gpt_bert", "masks"): [
        {**facts_of("gpt_bert")["masks"], "rate": rate} for rate in (0.274, 0.221, 0.18, 0.158)
    ],
    ("hplt_encoder", "masks"): [
        {**facts_of("hplt_encoder")["masks"], "rate": rate} for rate in (0.274, 0.221, 0.18, 0.158)
    ],
}
"""Facts that differ here, which the recipe says, with what is so instead."""


def expected(name, fact):
    return DIFFERENT.get((name, fact), facts_of(name)[fact])


# Values
# --------------------------------------------------------------------------------------------------


def value_at(data, key):
    """The value of a key; None: the data have no such key."""
    for part in key.split("."):
        if isinstance(data, dict):
            data = data.get(part)
        else:
            data = data[int(part)] if isinstance(data, list) and part.isdigit() else None
    return data


def as_number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return yaml.safe_load(value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", NAMES)
def test_the_recipe_has_each_value_that_the_table_names(name):
    """A key that a training leaves to its default has the value of the validated configuration."""
    files = {"pipeline": (Recipe, "pipeline.yaml"), "train": (TrainConfig, "train.yaml")}
    written = {
        part: read_composed(schema, RECIPES / name / file)
        for part, (schema, file) in files.items()
        if (RECIPES / name / file).exists()
    }
    complete = to_data(training_of(name)) if "train" in written else {}
    wrong = []
    for row in rows_of(name):
        for key, value in row.keys:
            of_pipeline = key.startswith("pipeline.")
            if key.startswith("variants."):  # of another training, such as a teacher
                _, variant, inner = key.split(".", 2)
                file = RECIPES / name / "train.yaml"
                found = value_at(read_composed(TrainConfig, file, [f"variant={variant}"]), inner)
            else:
                found = value_at(
                    written["pipeline" if of_pipeline else "train"], key.removeprefix("pipeline.")
                )
            if found is None and not of_pipeline:
                found = value_at(complete, key)
            if as_number(found) != as_number(value):
                wrong.append((row.name, key, value, found))

    assert wrong == []


# The optimizer
# --------------------------------------------------------------------------------------------------


def phase_at(phases, step, steps):
    """The phase of a step, from 0."""
    end = 0.0
    for phase in phases:
        end += phase.share or 1.0
        if step < end * steps - 1e-6 * steps:
            return phase
    return phases[-1]


@pytest.mark.parametrize("name", TRAININGS)
def test_learning_rates(name):
    config = training_of(name)
    options = config.schedule.options
    # of a training in epochs, whose steps follow from the text, those of the source
    steps = config.steps
    steps = steps if isinstance(steps, int) else facts_of(name)["learning_rate"][-1][0] + 1
    schedule = config.schedule.build(options.steps or steps)
    found = []
    for step, _ in expected(name, "learning_rate"):
        phases = config.data.phases
        peak = phase_at(phases, step, steps).learning_rate if phases else None
        rate = (peak or config.optimizer.options.peak_rate) * schedule(step + 1)
        # as Adafactor bounds it
        found.append(
            min(rate, (step + 1) ** -0.5) if config.optimizer.name == "adafactor" else rate
        )

    peak = max(rate for _, rate in expected(name, "learning_rate"))

    # the first update of some sources has a rate of 0, ours the rate of one more step
    assert found == pytest.approx(
        [rate for _, rate in expected(name, "learning_rate")], rel=2e-3, abs=2e-3 * peak
    )


@cache
def built(name):
    """The model at full size, on torch's device meta, and its configuration."""
    config = training_of(name)
    size = pipeline_of(name).config_of("train_tokenizer").size
    with torch.device("meta"):
        return build_model(config.model, size, {}), config


def kinds_of(model):
    """The kind of each parameter, as tables of sources name them."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    norms = {id(p) for m in model.modules() if isinstance(m, NORMS) for p in m.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) in norms:
            yield "norms", parameter
        elif id(parameter) in tables:
            yield "embeddings", parameter
        elif parameter.dim() > 1:
            yield "matrices" if name.startswith("family.") else "head", parameter
        else:
            yield "biases", parameter


@pytest.mark.parametrize("name", TRAININGS)
def test_the_parameters_that_decay(name):
    model, config = built(name)
    options = config.optimizer.options
    groups = parameter_groups(model, options.weight_decay, options.decays)
    decaying = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    found = defaultdict(set)
    for kind, parameter in kinds_of(model):
        found[kind].add(id(parameter) in decaying)

    wanted = expected(name, "decays")
    assert {kind: found[kind] for kind, value in wanted.items() if value is not None} == {
        kind: {value} for kind, value in wanted.items() if value is not None
    }

    rate = options.peak_rate
    if isinstance(strength := expected(name, "weight_decay_each_step"), float):
        assert rate * options.weight_decay == pytest.approx(strength, rel=1e-3)


# The model
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAININGS)
def test_parameters(name):
    model, _ = built(name)
    tables = [m for n, m in model.named_modules() if isinstance(m, nn.Embedding) and "tokens" in n]
    rows = {len(table.weight) for table in tables}

    assert sum(p.numel() for p in model.parameters()) == expected(name, "parameters")
    assert rows == {expected(name, "vocabulary")}


def parts_of(model):
    """Yield the weights of each kind of a source's table, with their part and the layer or None."""
    for path, module in model.named_modules():
        layer = LAYER.match(path)
        index = None if layer is None else int(layer["index"])
        match module:
            case Attention():
                yield "attention_in", "q", index, module.query.weight
                yield "attention_in", "k", index, module.key.weight
                yield "attention_in", "v", index, module.value.weight
                yield "attention_out", "", index, module.out.weight
            case FeedForward():
                for linear in filter(None, (module.gate, module.up)):
                    yield "ffn_in", "", index, linear.weight
                yield "ffn_out", "", index, module.down.weight
            case Learned():
                yield "positions", "", None, module.table.weight
            case VocabularyProjection() if not model.config.tied:
                yield "head", "", None, module.weight
            case VocabularyHead() if isinstance(module.transform, nn.Linear):
                yield "head", "transform", None, module.transform.weight
            case nn.Embedding() if path.endswith("tokens"):
                yield "embedding", "", None, module.weight


MOMENTS = {"uniform": 1.8, "normal": 3.0}
"""Fourth moment over the square of the second."""


def draw(distribution):
    values = torch.empty(400_000)
    distribution(values, torch.Generator().manual_seed(1))
    return values.double()


@pytest.mark.parametrize("name", TRAININGS)
def test_initial_weights(name):
    """The first and the last layer; queries, keys and values may differ."""
    model, config = built(name)
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    distributions = initial_distributions(model, config.model)
    wrong = []
    for kind, part, layer, weight in parts_of(model):
        wanted = expected(name, "initial").get(kind)
        if wanted is None or layer not in (None, 0, config.model.layers - 1):
            continue
        wanted = wanted.get(part, wanted)
        values = draw(distributions[names[id(weight)]])
        deviation = wanted.get("std", wanted.get("last" if layer else "first"))
        if not math.isclose(values.std(), deviation, rel_tol=0.01):
            wrong.append((kind, part, layer, float(values.std()), deviation))
        form = wanted.get("form")
        moment = float((values**4).mean() / (values**2).mean() ** 2)
        if form in MOMENTS and not math.isclose(moment, MOMENTS[form], rel_tol=0.03):
            wrong.append((kind, part, layer, form, moment))

    assert wrong == []


# Rows
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TRAININGS if facts_of(name)["masks"]])
def test_masks_of_ten_thousand_tokens(name):
    words = vocabulary(5000)
    masks = expected(name, "masks")
    masks = masks if isinstance(masks, list) else [masks]
    # entries without masks, or with those of the first, come last
    for entry, wanted in zip(entries_of(name)[: len(masks)], masks, strict=True):
        check_masks(entry, wanted, words)


def check_masks(entry, wanted, words):
    """Compare the masks of one objective of a pipeline with those of a phase."""
    if "input_length" in entry:
        check_spans(entry, wanted, words)
        return
    options = {key: value for key, value in entry.items() if key not in ("label", "variants")}
    objective = build_objective({**options, "max_length": 402}, words)
    rows = samples([400] * 200, words, seed=3)
    examples, _ = objective.corrupt(rows, np.zeros(200, np.uint16), 1)
    labels = examples.columns["label_ids"]
    places = examples.columns["label_positions"]
    ids = examples.columns["input_ids"]
    # a label is stored at its own place, also if the position before it predicts it
    read = ids.values[np.repeat(ids.offsets[:-1], places.lengths) + places.values]

    assert len(labels.values) / (400 * 200) == pytest.approx(wanted["rate"], rel=0.02)
    found = [(read == MASK).mean(), ((read != MASK) & (read != labels.values)).mean()]
    assert found == pytest.approx([wanted["mask"], wanted["random"]], abs=0.01)


def check_spans(entry, wanted, words):
    """Compare full rows of span corruption: the share of noise, and the mean length of spans."""
    objective = build_objective(entry, words)
    length = objective.content_length
    examples, _ = objective.corrupt(
        samples([length] * 100, words, seed=3), np.zeros(100, np.uint16), 1
    )
    inputs, targets = (examples.columns[name] for name in ("input_ids", "target_ids"))
    spans = np.isin(targets.values, words.sentinels).sum() / 100
    noise = targets.lengths.mean() - spans - 1

    assert set(inputs.lengths) == {entry["input_length"]}
    assert set(targets.lengths) == {noise + spans + 1}
    assert noise / length == pytest.approx(wanted["rate"], rel=0.005)
    assert noise / spans == pytest.approx(wanted["mean"], rel=0.001)
