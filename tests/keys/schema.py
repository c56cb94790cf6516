"""Every key of the configurations, dotted, read from the classes that validate them."""

from clozeline.configuration.described_keys import describe
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import FAMILIES, HEADS
from clozeline.train.configuration.config import TrainConfig


def keys_of(schema):
    """Return the keys below a class of options; those that only hold other keys are none."""
    described = [(key, kind) for key, kind, *_ in describe(schema)]
    holders = {key.rpartition(".")[0] for key, _ in described}
    return [key for key, kind in described if key not in holders or kind.endswith("or null")]


def own_keys(registry):
    """Return the keys of the algorithms of a registry: `lora.rank`."""
    return {
        f"{name}.{key}"
        for name in registry.available()
        if hasattr(registry.load_class(name), "Options")  # such as published tokenizers have none
        for key in keys_of(registry.load_class(name).Options)
    }


def model_keys():
    """Return the keys of every model."""
    return {key for key in keys_of(ModelConfig) if not key.startswith("heads.")}


def family_keys():
    """Return the keys that a family alone has: `elmo.clip`."""
    common = set(keys_of(ModelConfig))
    return {key for key in own_keys(FAMILIES) if key.partition(".")[2] not in common}


def head_keys():
    """Return the keys that each head reads: `lm.projection`; `weight` is every head's."""
    return own_keys(HEADS)


def all_head_keys():
    """Return the keys that some head may read."""
    return {key.partition(".")[2] for key in head_keys()}


def training_keys():
    """Return the keys of a training, without those of its model."""
    return {key for key in keys_of(TrainConfig) if not key.startswith("model.")}
