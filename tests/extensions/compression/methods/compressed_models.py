"""Models of odd sizes, three heads of width 5 and five layers, and their checkpoints in float64."""

import torch

from clozeline.extensions.compression.registries import METHODS
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.layers.quantization import holds_integers
from tests.model.small_models import RECURRENT, SPELLINGS, VOCABULARY, small_config

SIZES = {
    "dim": 15,
    "layers": 5,
    "attention_heads": 3,
    "ffn_dim": 11,
    "emb_dim": None,
    "head_dim": None,
}
GROUPED = {"attention_heads": 6, "kv_heads": 3, "head_dim": 4}
"""Sizes of a decoder whose three pairs of heads share keys and values."""


def odd_checkpoint(family="encoder", seed=0, **changes):
    """A model whose biases and norms are drawn too, so that nothing is zero or one by chance."""
    sizes = {} if family in RECURRENT else SIZES
    config = small_config(
        family, **{**sizes, **(GROUPED if family == "decoder" else {}), **changes}
    )
    model = build_model(config, VOCABULARY, {"pad": 0}, SPELLINGS).double().eval()
    draw = torch.Generator().manual_seed(seed)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                torch.randn(parameter.shape, generator=draw, dtype=torch.float64), alpha=0.3
            )

    return checkpoint_of(model)


def checkpoint_of(model):
    tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    return Checkpoint(model.config, VOCABULARY, tensors, {"pad_token_id": 0}, None, ())


def model_of(checkpoint):
    """The model of a checkpoint in its own precision.

    Integers of torchao are computed with as they are.
    """
    if any(map(holds_integers, checkpoint.tensors.values())):
        return build_checkpoint(checkpoint)
    model = (
        build_model(checkpoint.config, checkpoint.vocab_size, {"pad": 0}, SPELLINGS).double().eval()
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.tensors[name])

    return model


def compressed(checkpoint, name, batches=(), **options):
    """What a method makes of a checkpoint."""
    entry = METHODS.resolve({"name": name, **options})
    return entry.build().compress(checkpoint, batches)


def logits(model, tensors):
    with torch.no_grad():
        (scores,) = model.logits(tensors).values()
    return scores
