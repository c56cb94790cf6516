"""A start that is accepted trains its first batch and evaluates.

The rest is refused when sets are opened.
"""

import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets, open_stream
from clozeline.train.engine import Engine
from clozeline.train.startup.announcements import dry_run
from clozeline.train.startup.fill_in import check_start
from clozeline.train.startup.starting_model import build_random_model
from tests.matrices import mark_slow_but
from tests.refusals import refused
from tests.train.objective_sets import GENERATOR, MASKED, XLNET, write_objective_sets
from tests.train.synthetic import plain_config

LM = {"lm": 1.0}
BOTTLENECKS = {
    "type_vocab_size": 2,
    "bottleneck_dim": 16,
    "feed_forwards": 2,
    "emb_dim": 16,
    "out_dim": 32,
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
}
PAIRS = {**MASKED, "sentence": 1.0}
PAIRED = {"max_length": 64, "grouping": "sentence_pair"}
CAUSAL = ("causal_lm", {"architecture": "encoder", "grouping": "document"})
SETS = {
    "masked": [("masked_lm", {"cross_documents": False})],
    "causal": [CAUSAL],
    "prefix pairs": [("next_sentence_prediction", {"attention": "prefix"})],
    "pairs": [("next_sentence_prediction", {})],
    "translations": [("translation_lm", {})],
    "permuted": [("permuted_lm", {"frame": "xlnet"})],
    "crops": [("corrective_lm", {"replacement": "shuffle"})],
    "modes": [
        (
            "mixture",
            {
                "parts": [
                    {"name": "masked_lm", **PAIRED, "label": "masked"},
                    {
                        "name": "masked_lm",
                        **PAIRED,
                        "label": "causal",
                        "attention": "left_to_right",
                    },
                ]
            },
        )
    ],
    "masked, causal, pairs": [("masked_lm", {}), CAUSAL, ("next_sentence_prediction", {})],
    "left to right": [("causal_lm", {})],
    "documents": [("causal_lm", {"cross_documents": False})],
    "prefixes": [("prefix_lm", {})],
    "spans": [("span_corruption", {"cross_documents": False})],
    "denoising": [("masked_encoder_decoder", {})],
}
"""Objectives of the sets of a run."""
RECURRENT = {
    "cell_dim": 32,
    "attention_heads": 1,
    "ffn_dim": 1,
    "position": {"kind": "none", "maximum": 512},
}
MODELS = {
    **{
        f"encoder, {types} types": ("encoder", MASKED, {"type_vocab_size": types})
        for types in (0, 1, 2, 4, 6)
    },
    **{
        f"pairs, {types} types": ("encoder", PAIRS, {"type_vocab_size": types})
        for types in (2, 4, 6)
    },
    "languages": ("encoder", MASKED, {"languages": 2}),
    "crops": (
        "encoder",
        {"corrective": 1.0, "similarity": {"group_size": 4}},
        {"type_vocab_size": 2},
    ),
    "generator": ("replaced_tokens", {**MASKED, "token": 1.0}, GENERATOR | {"type_vocab_size": 2}),
    "bottlenecks": ("mobilebert", PAIRS, BOTTLENECKS),
    "two streams": ("xlnet", {"masked_lm": {"transform": False}}, XLNET),
    "decoder": ("decoder", LM, {}),
    "recurrent": ("awd_lstm", {"regularized_lm": 1.0}, RECURRENT),
    "both": ("encoder_decoder", LM, {"type_vocab_size": 1}),
}
"""Family, heads and keys of a model."""
SEGMENTS = ["segment_starts", "sentence_label", "sentence", "languages"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sets, below `NAME/0`, `NAME/1` and so on."""
    folder = tmp_path_factory.mktemp("sets")

    for name, objectives in SETS.items():
        for number, (objective, options) in enumerate(objectives):
            write_objective_sets(
                folder / name / str(number), objective, rows=24, heldout=8, **options
            )

    return folder


def configured(folder, sets, model):
    family, heads, keys = MODELS[model]
    paths = [folder / sets / str(number) for number in range(len(SETS[sets]))]
    sizes = {
        "dim": 32,
        "ffn_dim": 64,
        "dropout": {},
        "position": {"maximum": 64},
    } | keys
    plain = plain_config(
        model__family=family,
        model__heads=heads,
        **{f"model__{key}": value for key, value in sizes.items()},
        data__shards=[str(path / "train") for path in paths],
        data__heldout={str(number): str(path / "heldout") for number, path in enumerate(paths)},
        data__ignore=SEGMENTS,
        data__global_batch=16,
        data__micro_batch=8,
        output=str(folder / "run"),
    )

    return validate(TrainConfig, plain, "test")


def first_batches(config):
    """Train a batch, then evaluate one of each held-out set, without an optimizer: the losses."""
    start = check_start(config, 1, torch.device("cpu"))
    config, datasets = start.config, start.datasets
    model = build_random_model(config.model, config.seed, datasets.train)
    engine = object.__new__(Engine)  # for what it does to a batch
    engine.config = config
    engine.model = model
    engine._teacher = None
    engine.zero = SimpleNamespace(engine=model)
    engine._copies = None
    phases = {
        "data": datasets.phases,
        **{name: (datasets.heldout_phase(name),) for name in datasets.heldout},
    }
    for name, phase in phases.items():
        model.train(name == "data")

        with open_stream(config.data, phase, 0, 1) as stream:
            for batch in stream.next_step():
                counts = {head: one.count(batch.tensors) for head, one in model.heads.items()}
                losses = engine.losses(engine.inputs(batch, step=1))
                total = sum(loss.total for loss in losses.values())
                if name == "data":
                    total.backward()

                assert counts == {head: int(loss.count) for head, loss in losses.items()}

                yield name, total.item()


@pytest.mark.parametrize("model", mark_slow_but([*MODELS][::2], MODELS))
def test_what_a_dry_run_accepts_trains_and_evaluates_its_first_batch(folder, model, monkeypatch):
    monkeypatch.setattr(
        "clozeline.train.startup.announcements.operations_per_second", lambda *_: 1e9
    )
    accepted = Counter()

    for sets in SETS:
        config = configured(folder, sets, model)

        try:
            dry_run(config)
        except ConfigurationError:
            accepted[False] += 1
            continue

        accepted[True] += 1
        losses = [loss for _, loss in first_batches(config)]

        assert all(map(math.isfinite, losses)), sets
        assert max(losses) > 0, sets

    assert accepted[True] > 0
    assert accepted[False] > 0


@pytest.mark.parametrize(
    ("sets", "model", "message"),
    [
        (
            "masked, causal, pairs",
            "encoder, 4 types",
            r"model\.type_vocab_size: data\.shards.*: expected 6 .*, 2 for segments alone, or 0 "
            r"for neither; got 4",
        ),
        (
            "masked, causal, pairs",
            "pairs, 2 types",
            r"data\.heldout \(0\): .*: model\.heads\.sentence needs sentence_label, and these "
            r"rows have no column for it",
        ),
        (
            "masked, causal, pairs",
            "bottlenecks",
            r"data\.shards .*: attention: .* mobilebert reads both neighbors",
        ),
        ("prefixes", "recurrent", r"data\.shards: .*: prefix_length: expected rows of one text"),
    ],
)
def test_the_error_says_what_to_set(folder, sets, model, message):
    with refused(message):
        open_datasets(configured(folder, sets, model))
