"""Export a model to the format of transformers: config.json, tensors, generation defaults."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError, join_names
from clozeline.extensions.published.conversion.class_fit import fit_to_class
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.published_texts import CONFIG
from clozeline.extensions.published.conversion.tables import HeadedClass
from clozeline.extensions.published.conversion.tensor_layouts import export_tensors
from clozeline.extensions.published.conversion.type_selection import find_class_map
from clozeline.model.checkpoints.checkpoint import Checkpoint, parameter_shapes
from clozeline.model.configuration.head import module_name
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import ADAPTERS, FAMILIES

_GENERATION_KEYS: Final = tuple(
    f"{name}_token_id"
    for name in ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos")
)
"""Token ids that generation_config.json may have."""


@dataclass(frozen=True)
class Export:
    """Content of a folder of transformers."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    generation: dict[str, Any]
    """content of generation_config.json; empty if the class does not generate"""
    loader: str
    """class of transformers that loads the folder, such as AutoModelForMaskedLM"""
    model: Checkpoint
    """the model in the form of the transformers class, which must compute the same"""
    loader_options: dict[str, Any] = field(default_factory=dict)
    """arguments without which `from_pretrained` would initialize missing parameters"""

    @property
    def architecture(self) -> str:
        """Class of transformers that config.json names."""
        return str(self.config["architectures"][0])


def model_without_weights(
    config: ModelConfig, vocab_size: int, token_ids: Mapping[str, Any]
) -> Checkpoint:
    """Return a model whose tensors have only names and shapes, with its adapter merged.

    Raises:
        ConfigurationError: the adapter's computation cannot be written into weights.
    """
    if config.adapter is not None:
        ADAPTERS.load_class(config.adapter.name).check_merge()
        config = replace(config, adapter=None)
    shapes = parameter_shapes(config, vocab_size)
    tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    return Checkpoint(config, vocab_size, tensors, token_ids, None, ())


def export_checkpoint(
    checkpoint: Checkpoint, *, model_type: str | None = None, body_alone: bool = False
) -> Export:
    """Convert a model to a model type of transformers.

    Args:
        checkpoint: the model. Padding rows of its vocabulary are cut off.
        model_type: model type of transformers; None: the original one, or the first equivalent one.
        body_alone: export without the heads; for an encoder-decoder, only the encoder.

    Raises:
        ConfigurationError: no model type, or not the requested one, computes what the model does.
        WeightsError: the head is requested but missing.
    """
    checkpoint, key_map = fit_to_class(
        checkpoint, model_type or checkpoint.model_type, body_alone=body_alone
    )
    config = checkpoint.config
    # cut the padding rows of the vocabulary
    tensors = {
        name: tensor[: checkpoint.vocab_size]
        if name == "family.tokens.weight" or ".projection." in name
        else tensor
        for name, tensor in checkpoint.tensors.items()
    }

    config_json = key_map.configuration.write(config, checkpoint.vocab_size, checkpoint.token_ids)

    if body_alone:
        if key_map.classes.body_class is None:
            raise ConfigurationError(
                f"a model of type {key_map.model_type} has no class for its encoder alone"
            )

        has_two_stacks = config.architecture == "encoder_decoder"
        parts = ("family.tokens.", "family.encoder.") if has_two_stacks else key_map.tensors.body
        training_only = _training_only(key_map, tensors)
        body = {
            name: tensor
            for name, tensor in tensors.items()
            if name.startswith(parts) and name not in training_only
        }

        learned = export_tensors(key_map, config, body)
        unlearned = _unread_tensors(checkpoint, key_map, body_alone=True)
        exported = {
            name.removeprefix(key_map.tensors.base): tensor
            for name, tensor in {**learned, **unlearned}.items()
        }
        class_name = loader = key_map.classes.body_class
    else:
        _, class_name, loader = _class_with_heads(key_map, config)
        learned = _export_with_head(
            checkpoint, key_map, tensors, {**config_json, "architectures": [class_name]}
        )
        exported = learned | _tensors_of_class(checkpoint, key_map, learned)

    config_json = {
        "architectures": [class_name],
        **config_json,
        **key_map.configuration.keys_from_tensors(exported),
        "dtype": str(
            reduce(torch.promote_types, {tensor.dtype for tensor in tensors.values()})
        ).removeprefix("torch."),
    }
    if published := json.loads(checkpoint.published.get(CONFIG, "{}")):
        config_json = update_published(published, config_json, key_map, learned, exported)
    # a class whose pooler the model lacks would initialize it at random
    lacks_pooler = (
        body_alone
        and key_map.tensors.pooled
        and not any(name.startswith("pooler.") for name in exported)
    )

    generates = config.architecture != "encoder" and not body_alone
    ids = {
        key: value
        for key, value in checkpoint.token_ids.items()
        if key in _GENERATION_KEYS and value is not None
    }

    return Export(
        config=config_json,
        tensors=exported,
        generation=ids if generates else {},
        loader=loader,
        model=checkpoint,
        loader_options={"add_pooling_layer": False} if lacks_pooler else {},
    )


def _export_with_head(
    checkpoint: Checkpoint,
    key_map: KeyMap,
    tensors: Mapping[str, Tensor],
    config_json: Mapping[str, object],
) -> dict[str, Tensor]:
    if checkpoint.absent:
        raise WeightsError(
            f"the head is missing ({join_names(checkpoint.absent)}): export the body alone"
        )

    if _training_only(key_map, tensors):
        raise ConfigurationError(
            f"model.{key_map.tensors.training_key}: expected null in a model of type "
            f"{key_map.model_type} with its head, got another value; export the body alone"
        )
    # the transformers class must compute the heads as the model does
    exported = export_tensors(key_map, checkpoint.config, tensors)
    class_heads = key_map.configuration.read(config_json, exported).heads
    has_task_head = key_map.classes.task(checkpoint.config) is not None

    for name, head in checkpoint.config.heads.items():
        for key, (ours, other) in head.differences(
            class_heads[name], checkpoint.config.architecture
        ).items():
            raise ConfigurationError(
                f"model.heads.{name}.{key}: expected {json.dumps(other)} in a model of type "
                f"{key_map.model_type}, got {json.dumps(ours)}: export the body alone"
            )

        if not has_task_head and head.projection not in key_map.classes.projections:
            raise ConfigurationError(
                f"model.heads.{name}.projection: expected "
                f"{' or '.join(key_map.classes.projections)} in a model of type "
                f"{key_map.model_type}, got {head.projection}: export the body alone"
            )

    return exported


def _tensors_of_class(
    checkpoint: Checkpoint, key_map: KeyMap, learned: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return tensors that the transformers class saves and our model does not have."""
    copies = {
        name: learned[source].clone()
        for name, source in key_map.tensors.copies(checkpoint.config).items()
    }
    constants = key_map.tensors.constants_in_class(checkpoint.config, checkpoint.vocab_size)
    return copies | constants | _unread_tensors(checkpoint, key_map, body_alone=False)


def _class_with_heads(key_map: KeyMap, config: ModelConfig) -> HeadedClass:
    """Return the class of transformers with the heads of a model.

    Raises:
        ConfigurationError: no class has these heads together.
    """
    if (headed := key_map.classes.find(config.heads)) is not None:
        return headed
    possible_heads = (
        " or ".join(" and ".join(headed.heads) for headed in key_map.classes.with_heads) or "none"
    )
    raise ConfigurationError(
        f"model.heads: a model of type {key_map.model_type} has the heads {possible_heads}, but "
        f"this one has {' and '.join(config.heads)}: export some of them, or the body alone"
    )


def _unread_tensors(
    checkpoint: Checkpoint, key_map: KeyMap, *, body_alone: bool
) -> dict[str, Tensor]:
    copies = key_map.tensors.copies(checkpoint.config)
    rows = checkpoint.vocab_size
    names = key_map.tensors.names_to_keep(
        checkpoint.unread, checkpoint.config, body_alone=body_alone
    )
    unread = {name: checkpoint.unread[name] for name in names}
    constants = key_map.tensors.constants_in_class(checkpoint.config, rows)
    # a copy of the token table is outdated if the vocabulary has been extended since the import
    return {
        name: tensor
        for name, tensor in unread.items()
        if (name not in copies or len(tensor) == rows)
        and (name not in constants or tensor.shape == constants[name].shape)
    }


def _training_only(key_map: KeyMap, names: Iterable[str]) -> set[str]:
    return {
        name
        for name in names
        if any(re.search(pattern, name) for pattern in key_map.tensors.only_trained)
    }


_DECODER_START_KEY: Final = "decoder_start_token_id"


def update_published(
    published: Mapping[str, object],
    config_json: Mapping[str, object],
    key_map: KeyMap,
    learned: Mapping[str, Tensor],
    names: Iterable[str],
) -> dict[str, object]:
    """Return the published config.json, updated with the keys that have changed since the import.

    Args:
        published: content of config.json, as it was imported.
        config_json: config.json of an export that does not start from `published`.
        key_map: map of the exported model.
        learned: parameters of the exported model by transformers' names.
        names: of all its tensors.
    """
    if published.get("model_type") != key_map.model_type:
        return dict(config_json)
    source = find_class_map(published)

    # what an export of the unchanged model would have written
    ids = _token_ids(published)
    before = source.configuration.write(
        source.configuration.read(published, learned),
        source.configuration.vocab_size(published),
        ids,
    )

    before |= source.configuration.keys_from_tensors(names)
    dtype = "torch_dtype" if "torch_dtype" in published else "dtype"
    before[dtype] = published.get(dtype, config_json["dtype"])
    now = {dtype if key == "dtype" else key: value for key, value in config_json.items()}
    before = {
        key: value for key, value in before.items() if key not in key_map.configuration.layout
    }

    # published keys stay unless they have changed since
    unchanged = {key: value for key, value in published.items() if key in now or key not in before}
    merged = unchanged | {
        key: value for key, value in now.items() if key not in before or before[key] != value
    }

    try:
        is_equivalent = key_map.configuration.read(merged, learned) == key_map.configuration.read(
            config_json, learned
        )
    except ConfigurationError:
        is_equivalent = False

    if is_equivalent:
        return merged
    # keys with several spellings may contradict each other: then drop all keys that the map reads
    return {
        key: value for key, value in published.items() if key not in key_map.configuration.keys_read
    } | now


def continue_published(checkpoint: Checkpoint, texts: Mapping[str, str]) -> Checkpoint:
    """Return a trained model with published texts, and the token ids and model type in them.

    The published model type is kept if it has a class for the model. The published ids are kept
    unless the tokenizer of the training contradicts one; ids of added pieces are added to them.
    """
    # the published ids, unless the tokenizer of the training contradicts one
    published = json.loads(texts[CONFIG])
    trained = {key: value for key, value in checkpoint.token_ids.items() if value is not None}
    ids = _token_ids(published)
    if all(
        trained.get(key) in (None, value, *np.ravel(value))
        for key, value in ids.items()
        if key != _DECODER_START_KEY
    ):
        new = {
            key: value
            for key, value in trained.items()
            if key == _DECODER_START_KEY or value >= published["vocab_size"]
        }
        trained = ids | new
    # the published model type, if it has a class for the model
    model_type: str | None = published["model_type"]
    checkpoint = replace(checkpoint, token_ids=trained)

    try:
        folded, key_map = fit_to_class(checkpoint, model_type)
    except ConfigurationError:
        model_type = None
    else:
        model_type = model_type if key_map.classes.find(folded.config.heads) else None

    return replace(checkpoint, model_type=model_type, published=texts)


def _token_ids(published: Mapping[str, object]) -> dict[str, Any]:
    return {
        key: value
        for key, value in published.items()
        if key.endswith("_token_id") and value is not None
    }


def split_models(checkpoint: Checkpoint) -> dict[str, Checkpoint]:
    """Return the models in a checkpoint by name; a single model has the empty name."""
    family = FAMILIES.load_class(checkpoint.config.family)
    parts = family.parts(checkpoint.config, checkpoint.tensors).items()
    models = {
        name: replace(checkpoint, config=part_config, tensors=tensors, model_type=None)
        for name, (part_config, tensors) in parts
    }
    return models or {"": checkpoint}


def select_heads(checkpoint: Checkpoint, heads: Collection[str]) -> Checkpoint:
    """Return a model with only some of its heads."""
    config = checkpoint.config
    if unknown := [name for name in heads if name not in config.heads]:
        raise ConfigurationError(
            f"heads: expected some of {', '.join(config.heads)}, got {', '.join(unknown)}"
        )
    # leave out the configuration and the tensors of the other heads
    removed = tuple(f"heads.{module_name(name)}." for name in config.heads if name not in heads)
    return replace(
        checkpoint,
        config=replace(config, heads={name: config.heads[name] for name in heads}),
        tensors={
            name: tensor
            for name, tensor in checkpoint.tensors.items()
            if not name.startswith(removed)
        },
        absent=tuple(name for name in checkpoint.absent if not name.startswith(removed)),
    )
