"""Small models of transformers with the heads of pretraining, and ours with their weights copied by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from clozeline.model.build import Model
from clozeline.model.configuration.model_config import ModelConfig
from tests.model.closeness import assert_gradients_close, gradients

VOCABULARY, PLACES = 37, 20
BERT = [
    (r"family\.tokens", "bert.embeddings.word_embeddings"),
    (r"family\.stack\.position\.table", "bert.embeddings.position_embeddings"),
    (r"family\.stack\.embeddings\.types", "bert.embeddings.token_type_embeddings"),
    (r"family\.stack\.embeddings\.norm", "bert.embeddings.LayerNorm"),
    (r"family\.stack\.layers", "bert.encoder.layer"),
    (r"attention\.body\.out", "attention.output.dense"),
    (r"attention\.body", "attention.self"),
    (r"attention\.norm", "attention.output.LayerNorm"),
    (r"feed_forward\.body\.up", "intermediate.dense"),
    (r"feed_forward\.body\.down", "output.dense"),
    (r"feed_forward\.norm", "output.LayerNorm"),
    (r"heads\.masked_lm\.transform", "cls.predictions.transform.dense"),
    (r"heads\.masked_lm\.norm", "cls.predictions.transform.LayerNorm"),
    (r"heads\.masked_lm\.projection\.bias", "cls.predictions.bias"),
    (r"heads\.sentence\.pooler\.dense", "bert.pooler.dense"),
    (r"heads\.sentence\.classifier", "cls.seq_relationship"),
]
"""Patterns of our names and what replaces them, in order."""


@dataclass(frozen=True)
class Peers:
    """Two models with equal weights."""

    ours: Model
    theirs: Any
    names: dict[str, str]
    """Our parameter name to theirs."""

    def compare_gradients(self):
        """Compare the gradients of all parameters."""
        theirs = gradients(self.theirs)
        assert_gradients_close(gradients(self.ours), {name: theirs[other] for name, other in self.names.items()})


def peers(config: ModelConfig, theirs: Any, renames: list[tuple[str, str]]) -> Peers:
    """Draw every parameter again (initial zeros and ones would hide mistakes), then copy theirs into ours (float64)."""
    draw = torch.Generator().manual_seed(3)
    for parameter in theirs.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    ours, source, names = Model(config, VOCABULARY), dict(theirs.named_parameters()), {}
    for name, parameter in ours.named_parameters():
        renamed = name
        for pattern, replacement in renames:
            renamed = re.sub(pattern, replacement, renamed)
        names[name] = renamed
        parameter.data = source[renamed].data.clone()
    assert sorted(names.values()) == sorted(source)
    return Peers(ours.eval().double(), theirs.eval().double(), names)
