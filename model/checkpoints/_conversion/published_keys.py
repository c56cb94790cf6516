"""Write config.json over the one that a model was published with, so that it keeps the keys that nothing changed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.model.checkpoints._conversion.import_record import CONFIG
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.type_selection import map_for, map_of_class

_START: Final = "decoder_start_token_id"


def write_over(
    published: Mapping[str, Any], plain: Mapping[str, Any], key_map: KeyMap, tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Return the published config.json with the keys that differ since its import.

    Args:
        published: content of config.json, as it was imported.
        plain: what an export without it would write.
        key_map: of the exported model.
        tensors: of the exported model, by their names.
    """
    if published.get("model_type") != key_map.model_type:
        return dict(plain)
    source = map_of_class(published)
    ids = _token_ids(published)
    before = source.write_config(source.read_config(published, tensors), source.vocab_size(published), ids)
    before |= source.keys_from(tensors)
    dtype = "torch_dtype" if "torch_dtype" in published else "dtype"
    before[dtype] = published.get(dtype, plain["dtype"])
    now = {dtype if key == "dtype" else key: value for key, value in plain.items()}
    before = {key: value for key, value in before.items() if key not in key_map.layout}
    kept = {key: value for key, value in published.items() if key in now or key not in before}
    merged = kept | {key: value for key, value in now.items() if key not in before or before[key] != value}
    try:
        same = key_map.read_config(merged, tensors) == key_map.read_config(plain, tensors)
    except ConfigurationError:
        same = False
    if same:
        return merged
    # keys with several spellings may contradict one another: then no key that the map reads is kept
    read = {*key_map.fields.values(), *key_map.only, *key_map.also_read, *key_map.defaults, key_map.activation}
    return {key: value for key, value in published.items() if key not in read} | now


def continue_published(checkpoint: Checkpoint, texts: Mapping[str, str]) -> Checkpoint:
    """Return a trained model with the published texts, their ids, and their model type if it has a class for the model.

    Ids of the training hold instead if its tokenizer contradicts a published one. Those of added pieces are added.
    """
    published = json.loads(texts[CONFIG])
    trained = {key: value for key, value in checkpoint.token_ids.items() if value is not None}
    ids = _token_ids(published)
    if all(trained.get(key) in (None, value, *np.ravel(value)) for key, value in ids.items() if key != _START):
        new = {key: value for key, value in trained.items() if key == _START or value >= published["vocab_size"]}
        trained = ids | new
    kind = published["model_type"]
    try:
        map_for(checkpoint.config, trained, kind).class_with(checkpoint.config.heads)
    except ConfigurationError:
        kind = None
    return replace(checkpoint, model_type=kind, token_ids=trained, published=texts)


def _token_ids(published: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in published.items() if key.endswith("_token_id") and value is not None}
