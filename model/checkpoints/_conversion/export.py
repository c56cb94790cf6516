"""Export a model to the format of transformers: config.json, tensors by their names, and generation defaults."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.model.checkpoints._conversion.import_record import CONFIG
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.published_keys import write_over
from clozeline.model.checkpoints._conversion.task_heads import differing_head_keys
from clozeline.model.checkpoints._conversion.tensor_layouts import to_theirs
from clozeline.model.checkpoints._conversion.tensor_names import join_names
from clozeline.model.checkpoints._conversion.type_selection import map_for

_GENERATION: Final = tuple(
    f"{name}_token_id" for name in ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos")
)


@dataclass(frozen=True)
class Export:
    """Content of a directory of transformers."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    generation: dict[str, Any]
    """content of generation_config.json; empty if the class does not generate"""
    loader: str
    """class of transformers that loads it, such as AutoModelForMaskedLM"""
    loader_options: dict[str, Any] = field(default_factory=dict)
    """arguments of `from_pretrained` without which it would initialize missing parameters"""


def export_checkpoint(checkpoint: Checkpoint, *, model_type: str | None = None, body_alone: bool = False) -> Export:
    """Convert a model to a model type of transformers.

    Args:
        checkpoint: the model. Rows that pad its vocabulary are cut off.
        model_type: of transformers; None: the original one, or the first that computes the same.
        body_alone: without the heads; of an encoder-decoder only the encoder.

    Raises:
        ConfigurationError: no model type, or not the requested one, computes what the model does.
        WeightsError: the head is requested but missing.
    """
    config = checkpoint.config
    key_map = map_for(config, checkpoint.token_ids, model_type or checkpoint.model_type)
    # cut the rows that pad the vocabulary
    tensors = {
        name: tensor[: checkpoint.vocab_size] if name == "family.tokens.weight" or ".projection." in name else tensor
        for name, tensor in checkpoint.tensors.items()
    }
    plain = key_map.write_config(config, checkpoint.vocab_size, checkpoint.token_ids)
    if body_alone:
        if key_map.bare is None:
            raise ConfigurationError(f"a model of type {key_map.model_type} has no class for its encoder alone")
        paired = config.architecture == "encoder_decoder"
        parts = ("family.tokens.", "family.encoder.") if paired else key_map.body
        left = _training_only(key_map, tensors)
        body = {name: tensor for name, tensor in tensors.items() if name.startswith(parts) and name not in left}
        theirs = to_theirs(key_map, config, body) | _unread_tensors(checkpoint, key_map, body_alone=True)
        theirs = {name.removeprefix(key_map.base): tensor for name, tensor in theirs.items()}
        kind = loader = key_map.bare
    else:
        _, kind, loader = key_map.class_with(config.heads)
        theirs = _export_with_head(checkpoint, key_map, tensors, {**plain, "architectures": [kind]})
    plain = {
        "architectures": [kind],
        **plain,
        **key_map.keys_from(theirs),
        "dtype": str(reduce(torch.promote_types, {tensor.dtype for tensor in tensors.values()})).removeprefix("torch."),
    }
    if published := json.loads(checkpoint.published.get(CONFIG, "{}")):
        plain = write_over(published, plain, key_map, theirs)
    undrawn = body_alone and key_map.pooled and not any(name.startswith("pooler.") for name in theirs)
    generates = config.architecture != "encoder" and not body_alone
    ids = {key: value for key, value in checkpoint.token_ids.items() if key in _GENERATION and value is not None}
    return Export(plain, theirs, ids if generates else {}, loader, {"add_pooling_layer": False} if undrawn else {})


def _export_with_head(
    checkpoint: Checkpoint, key_map: KeyMap, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]
) -> dict[str, Tensor]:
    if checkpoint.absent:
        raise WeightsError(f"the head is not there ({join_names(checkpoint.absent)}): export the body alone")
    if unknown := _training_only(key_map, tensors):
        why = f"{join_names(unknown)}; export the body alone"
        raise ConfigurationError(f"a model of type {key_map.model_type} lacks what the head reads: {why}")
    theirs = to_theirs(key_map, checkpoint.config, tensors)
    read = key_map.read_config(plain, theirs).heads
    for name, head in checkpoint.config.heads.items():
        for key in ("transform",) if key_map.task(checkpoint.config) else ("transform", "bias"):
            if name not in read or getattr(head, key) != getattr(read[name], key):
                given = getattr(head, key)
                raise ConfigurationError(
                    f"model.heads.{name}.{key}: expected {str(not given).lower()} in a model of type "
                    f"{key_map.model_type}, got {str(given).lower()}: export the body alone"
                )
        if not key_map.task(checkpoint.config) and head.projection not in key_map.projections:
            raise ConfigurationError(
                f"model.heads.{name}.projection: expected {' or '.join(key_map.projections)} in a model of type "
                f"{key_map.model_type}, got {head.projection}: export the body alone"
            )
        if key_map.task(checkpoint.config) and (
            others := differing_head_keys(head, read[name], checkpoint.config.architecture)
        ):
            why = f"the class of type {key_map.model_type} computes something else: export the body alone"
            raise ConfigurationError(f"model.heads.{name}.{others[0]}: {why}")
    theirs |= {name: theirs[source].clone() for name, source in key_map.copies(checkpoint.config).items()}
    theirs |= key_map.constants_in_class(checkpoint.config, checkpoint.vocab_size)
    return theirs | _unread_tensors(checkpoint, key_map, body_alone=False)


def _unread_tensors(checkpoint: Checkpoint, key_map: KeyMap, *, body_alone: bool) -> dict[str, Tensor]:
    copies, rows = key_map.copies(checkpoint.config), checkpoint.vocab_size
    names = key_map.names_to_keep(checkpoint.unread, checkpoint.config, body_alone=body_alone)
    unread = {name: checkpoint.unread[name] for name in names}
    constants = key_map.constants_in_class(checkpoint.config, rows)
    # a copy of a vocabulary that has been extended since is outdated
    return {
        name: tensor
        for name, tensor in unread.items()
        if (name not in copies or len(tensor) == rows)
        and (name not in constants or tensor.shape == constants[name].shape)
    }


def _training_only(key_map: KeyMap, names: Iterable[str]) -> set[str]:
    return {name for name in names if any(re.search(pattern, name) for pattern in key_map.only_trained)}
