"""Which parts of a training go together: what is set, and pairs that are refused by both keys.

docs/combinations.md has the table of all pairs of our own parts.
"""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.parts import SETTINGS, parts_of
from clozeline.train.hooks import Hook
from clozeline.train.hooks.average import Average
from clozeline.train.hooks.unfreezing import Unfreezing
from clozeline.train.registries import TRAINING_KEYS
from tests.train.synthetic import tiny


class Twin(Average):
    """An average of one's own."""


class Mean(Hook):
    """A state that is evaluated instead of the weights."""

    keys = frozenset({"average"})


class Moments(Hook):
    """States that an optimizer has."""

    keys = frozenset({"exp_avg"})


class Thawing(Unfreezing):
    """Another order of layers."""


def own(kind, **options):
    return {"name": f"{__name__}:{kind.__name__}", **options}


TEACHER = {"teacher": "elsewhere"}
ELSEWHERE = {"model__init_from": "elsewhere"}
WAYS = {
    "zero.offload": {"zero__stage": 2, "zero__offload": "optimizer"},
    "zero.stage=0": {"zero__stage": 0},
    "zero.stage=3": {"zero__stage": 3},
    "precision=bf16": {"precision": "bf16"},
    "compile=true": {"compile": True},
    "data.label_capacity with compile=true": {"compile": True, "data__label_capacity": 64},
    "activation_checkpointing": {"activation_checkpointing": True},
    "data.batch_tokens": {"data__batch_tokens": 64},
    "data.length_buckets": {"data__length_buckets": True},
    "evaluate.every=null or evaluate.max_rows=0": {"evaluate": {"every": 2, "max_rows": 0}},
    "early_stop": {"early_stop": {"metric": "heldout/loss"}, "evaluate__every": 2},
    "checkpoint.keep_best": {"checkpoint__keep_best": True, "evaluate__every": 2},
    "on_divergence": {"on_divergence": {}},
    "optimizer.weight_decay above 0": {"optimizer__weight_decay": 0.1},
    "model.init_from=null": {"model__init_from": None},
    "model.init_from": ELSEWHERE,
    "init_parts": {"init_parts": "body", **ELSEWHERE},
    "model.adapter": {"model__adapter": "lora", **ELSEWHERE},
    "freeze": {"freeze": "body"},
    "model.share": {"model__share": {"groups": 1}},
    "model.quantization": {"model__quantization": "int8"},
    "distil": {"distil": TEACHER},
    "distil.teacher=null": {"distil": {}},
    "distil.start": {"distil": {**TEACHER, "start": {"layers": [0, 1]}}},
    "distil.progressive": {"distil": {**TEACHER, "progressive": 1}},
}
"""A run with each setting."""
LOTTERY = {"prune": {"name": "lottery", "every": 1}}
TOKENS = {"prune": {"name": "tokens", "shares": [1.0, 0.5]}}
NT_ASGD = {"optimizer": {"name": "nt_asgd"}, "evaluate__every": 2}
UNFREEZING = {"name": "unfreezing", "every": 1}


@pytest.mark.parametrize("key", WAYS)
def test_a_setting_is_a_part_of_the_runs_that_have_it(key):
    keys = {part.key for part in parts_of(tiny(**{"optimizer__weight_decay": 0.0, **WAYS[key]}))}
    assert key in keys


def test_a_plain_run_has_these_settings_alone():
    kinds = map(TRAINING_KEYS.load_class, TRAINING_KEYS.available())
    settings = {
        part.key for part in (*SETTINGS, *(part for kind in kinds for part in kind.settings))
    }
    assert settings == WAYS.keys()
    assert {part.key for part in parts_of(tiny())} & settings == {
        "evaluate.every=null or evaluate.max_rows=0",
        "optimizer.weight_decay above 0",
        "model.init_from=null",
    }


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ((f"hooks={__name__}:Twin", "hooks=average"), {"hooks": ["average", own(Twin)]}),
        ((f"hooks={__name__}:Twin", "optimizer=nt_asgd"), {**NT_ASGD, "hooks": [own(Twin)]}),
        ((f"hooks={__name__}:Mean", "prune=tokens"), {**TOKENS, "hooks": [own(Mean)]}),
        ((f"hooks={__name__}:Moments", "optimizer=adamw"), {"hooks": [own(Moments)]}),
        (
            (f"hooks={__name__}:Thawing", "hooks=unfreezing"),
            {"hooks": [UNFREEZING, own(Thawing, every=1)]},
        ),
        (("hooks=average", "hooks=average"), {"hooks": ["average", "average"]}),
        (("prune=tokens", "optimizer=nt_asgd"), {**TOKENS, **NT_ASGD}),
        (("prune=lottery", "model.init_from=null", "set model.init_from"), LOTTERY),
        (
            ("optimizer=nt_asgd", "evaluate.every=null", "set evaluate.every"),
            {"optimizer": {"name": "nt_asgd"}},
        ),
        (
            ("optimizer=muon", "zero.offload", "choose optimizer=adamw"),
            {**WAYS["zero.offload"], "optimizer": {"name": "muon"}},
        ),
        (("compile=true", "zero.stage=3"), {"compile": True, "zero__stage": 3}),
        (
            ("model.heads.similarity", "data.length_buckets"),
            {"model__heads": {"similarity": {"group_size": 2}}, "data__length_buckets": True},
        ),
    ],
)
def test_two_parts_that_do_not_go_together_are_refused_by_both_keys(keys, changes):
    with pytest.raises(ConfigurationError) as caught:
        tiny(**changes)

    for key in keys:
        assert key in str(caught.value)
