"""Build the models of the experiments on a GPU.

They are compiled or quantized.
"""

from dataclasses import dataclass

import torch
from pydantic import TypeAdapter

from benchmarks.model import LABELS, VOCABULARY
from clozeline.extensions.compression.registries import METHODS
from clozeline.model.build import Model, build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.compilation.layer_calls import compile_heads, compile_layers, recompute_layers
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size

SMALL = {"dim": 48, "layers": 2, "attention_heads": 3, "ffn_dim": 96}
TINY_VOCABULARY = 30_000


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One measurement; `preset` names a size of `configs/models`, None: no model."""

    preset: str | None = None
    rows: int
    columns: int = 512
    targets: int = 0
    """Decoder positions of an encoder-decoder."""
    share: float = LABELS
    """Share of the positions that are labels; all in GPT-2 and T5."""
    layout: str = "full"
    """full, packed or padded"""
    compiled: bool = False
    recomputed: bool = False
    label_chunk: int | None = None
    label_capacity: int = 4096
    """Compiled models: labels of a batch are padded to a multiple."""
    deterministic: bool = False
    forward: bool = False
    """The forward pass alone."""
    number_format: str | None = None
    """Method of compression that stores the linear maps as integers."""
    stage: int | None = None
    """A run of the trainer at this ZeRO stage."""
    attention: str | None = None
    """Attention in documents compared with a mask: self, or cross from targets to sources."""
    goal: float | None = None
    """MFU."""


def build(experiment: Experiment, device: torch.device, tiny: bool) -> Model:
    """Return the model of an experiment on its device."""
    assert experiment.preset is not None

    plain = read_size(experiment.preset) | {"dropout": {}}
    plain |= SMALL if tiny else {}

    if experiment.label_chunk is not None:
        plain["heads"] = {
            name: {"weight": 1.0, "label_chunk": experiment.label_chunk} for name in plain["heads"]
        }

    vocabulary = TINY_VOCABULARY if tiny else VOCABULARY[experiment.preset]
    model = build_model(TypeAdapter(ModelConfig).validate_python(plain), vocabulary, {})

    if experiment.number_format is not None:
        tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
        dense = Checkpoint(model.config, vocabulary, tensors, {}, None, ())
        method = METHODS.resolve(experiment.number_format).build()
        model = build_checkpoint(method.compress(dense, ()).checkpoint)

    model.to(
        device=device,
        dtype=torch.float32 if tiny else torch.bfloat16,
    )
    if experiment.compiled:
        compile_layers(model, "eager" if tiny else "inductor")
        compile_heads(model, "eager" if tiny else "inductor")

    if experiment.recomputed:
        recompute_layers(model)
    return model
