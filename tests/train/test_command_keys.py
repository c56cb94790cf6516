"""Every key that the trainer's `--help` lists can be set on its command line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from clozeline.command import keys_of
from clozeline.model.configuration.position import ScalingConfig
from clozeline.registry import find, names
from clozeline.train.command import _ALGORITHMS
from clozeline.train.configuration.config import TrainConfig
from tests.settable_keys import unsettable

DEMO = Path(__file__).parents[2] / "configs" / "recipes" / "demo" / "train.yaml"
DIVISORS = [1.5] * 16
LISTS = {"longrope": f", short_factor: {DIVISORS}, long_factor: {DIVISORS}"}
PHASE = "{shards: s, until_samples: 320, corrupt: [masked_lm]}"
LAST = "{shards: s, corrupt: [masked_lm]}"
GIVEN = {
    "checkpoint.at": "[10M tokens]",
    "early_stop": "{metric: heldout/loss}",
    "profile": "{from: 20}",
    "model.family": "encoder",
    "model.heads": "{masked_lm: 2.0}",
    "model.heads.similarity.group_size": "4",
    "model.heads.regression.range": "[1.0, 5.0]",
    "model.position.scaling.short_factor": f"{DIVISORS}",
    "model.position.scaling.long_factor": f"{DIVISORS}",
    "model.local.layer_types": "[sliding_attention, full_attention]",
    "model.adapter": "{name: lora}",
    "model.adapter.targets": "[query]",
    "model.adapter.inputs": "[down]",
    "model.adapter.outputs": "[key]",
    "freeze": "[stack]",
    "data.corrupt": "causal_lm",
    "data.phases.corrupt": "causal_lm",
    "data.phases": f"[{PHASE}, {LAST}]",
}


HEADS = (
    "model.heads={masked_lm: {}, span_boundary: {}, corrective: {}, similarity: {}, classification: {hidden: tanh}, "
    "regression: {}}"
)


MAPPINGS = {
    "data.shards.": ["data.shards={path: s}"],
    "distil": ["distil={teacher: t, start: {layers: [0]}}"],
    "early_stop": ["evaluate.every=5", "early_stop={metric: heldout/loss}"],
    "profile": ["profile={from: 20}"],
    "model.adapter": ["model.init_from=runs/base"],
    "model.connector": ["model.family=encoder_decoder", "model.connector={}"],
    **{
        f"model.local.{key}": ["model.local={window: 4, global_every: 2}", "model.position={kind: rope}"]
        for key in ("window", "global_every", "theta")
    },
    "model.local.layer_types": ["model.local={window: 4}"],
    "model.position.disentangled": ["model.position={kind: none, disentangled: {}}"],
    "model.share.universal": [
        "model.first_norm=true",
        "model.heads={masked_lm: 1}",
        "model.share={groups: 1, universal: {}}",
    ],
    **{
        f"model.position.scaling.{key}": [
            "model.position={kind: rope}",
            f"model.position.scaling={{kind: {kind}, factor: 2.0, original_maximum: 64{LISTS.get(kind, '')}}}",
        ]
        for kind, keys in ScalingConfig.READS.items()
        for key in ("kind", "factor", *keys)
    },
    **{
        f"regularizer.{key} (name: {name}": ["model.init_from=m", "optimizer.weight_decay=0", f"regularizer={given}"]
        for name, given, keys in (
            ("l2_sp", "{name: l2_sp}", ("alpha", "beta")),
            ("ewc", "{name: ewc, fisher: f}", ("fisher", "strength")),
        )
        for key in keys
    },
    **{
        f"prune.{key} (name: {name}": ["model.init_from=m", f"prune={given}"]
        for name, given in (
            ("magnitude", "{name: magnitude, sparsity: 0.75}"),
            ("movement", "{name: movement, keep: 0.75}"),
            ("layer_drop", "layer_drop"),
            ("lottery", "{name: lottery, every: 3}"),
        )
        for key in (field.name for field in fields(find("clozeline.train.compression.pruning", name).Options))
    },
    **{
        f"prune.{key} (name: tokens)": ["model.init_from=m", f"prune={{name: tokens, {given}}}"]
        for given, keys in (
            ("rule: retention, weight: 2.0", ("rule", "weight", "harden", "learning_rate", "positions")),
            ("rule: thresholds, weight: 2.0", ("last", "temperature")),
            ("rule: shares, shares: [0.5]", ("shares",)),
        )
        for key in keys
    },
}
"""Keys below a mapping that is null by default, and what gives the mapping."""


def of_a_head(key: str) -> str:
    """The key of a head that reads it, in place of any head's."""
    last = key.partition(" ")[0].rpartition(".")[2]
    readers = [name for name in names("clozeline.model.heads") if last in find("clozeline.model.heads", name).settings]
    return key.replace("heads.NAME", f"heads.{'masked_lm' if 'masked_lm' in readers or not readers else readers[0]}")


@pytest.mark.slow
def test_every_key_of_the_help_can_be_set_on_the_command_line() -> None:
    keys = [(of_a_head(key), *rest) for key, *rest in keys_of(TrainConfig, _ALGORITHMS)]
    phases = [entry for entry in keys if entry[0].startswith("data.phases")]
    below = {mapping: [entry for entry in keys if entry[0].startswith(mapping)] for mapping in MAPPINGS}
    others = [entry for entry in keys if entry not in sum(below.values(), phases)]
    sets = ["output=o", "data.shards=[s, t]", "data.corrupt=[masked_lm]", "optimizer={name: adamw}", HEADS]
    assert unsettable(TrainConfig, DEMO, sets, others, GIVEN) == []
    for mapping, entries in below.items():
        assert unsettable(TrainConfig, DEMO, [*sets, *MAPPINGS[mapping]], entries, GIVEN) == []
    assert unsettable(TrainConfig, DEMO, ["output=o", f"data.phases=[{PHASE}, {LAST}]"], phases, GIVEN) == []


def test_every_key_has_a_meaning() -> None:
    assert not [key for key, _, _, meaning in keys_of(TrainConfig, _ALGORITHMS) if not meaning]
