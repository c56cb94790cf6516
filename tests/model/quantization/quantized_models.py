"""Small models with stored integers, made as `clozeline compress` makes them."""

from dataclasses import replace

import torch

from clozeline.model.build import build_model
from clozeline.model.checkpoints import Checkpoint, quantize_checkpoint
from clozeline.registry import choose
from tests.model.small_models import SPELLINGS, VOCABULARY, small_config

FORMATS = {
    "int8": {"name": "int8"},
    "int8 tables": {"name": "int8", "embeddings": True},
    "int4": {"name": "int4", "group": 4},
    "int4 tables": {"name": "int4", "group": 4, "embeddings": True},
}


def chosen(entry):
    return choose("clozeline.model.quantization.formats", entry)


def model_of(config):
    """A model in evaluation mode whose matrices have rows of very different size."""
    model = build_model(config, VOCABULARY, {"pad": 0}, SPELLINGS, seed=5).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter *= torch.logspace(-1, 0.5, len(parameter))[:, None]
    return model


def checkpoint_of(model):
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return Checkpoint(model.config, VOCABULARY, tensors, {"pad_token_id": 0}, None, ())


def quantized(entry, family="encoder", **changes):
    """A dense model, and its quantized checkpoint."""
    model = model_of(small_config(family, **changes))
    return model, quantize_checkpoint(checkpoint_of(model), chosen(entry))


def trained_for(model, entry):
    """The model as a training for the format has it, with the same weights."""
    rounded = build_model(replace(model.config, quantization=chosen(entry)), VOCABULARY, {"pad": 0}, SPELLINGS).eval()
    rounded.load_state_dict(model.state_dict())
    return rounded
