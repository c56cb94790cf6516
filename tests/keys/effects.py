"""What a configuration makes, as one digest: two configurations with one digest differ in nothing
that is computed."""

import copy
import hashlib

import torch

from clozeline.configuration.config import to_data, validate
from clozeline.errors import ConfigurationError
from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS
from clozeline.tools.start.contracts import heads as head_contract
from tests.model.small_models import SPELLINGS, VOCABULARY, batch_for

REFUSED = "refused"


def with_keys(plain, changes):
    """Return plain data with other values of dotted keys."""
    plain = copy.deepcopy(plain)

    for key, value in changes.items():
        *folders, last = key.split(".")
        inner = plain

        for folder in folders:
            if not isinstance(inner.get(folder), dict):
                inner[folder] = {}
            inner = inner[folder]

        inner[last] = value

    return plain


def validated(plain):
    """Return the configuration of a model, with all defaults."""
    return validate(ModelConfig, plain, "")


class Digest:
    """SHA-256 of named tensors and texts."""

    def __init__(self):
        self._sum = hashlib.sha256()

    def add(self, name, tensor):
        self._sum.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        self._sum.update(tensor.detach().float().contiguous().numpy().tobytes())

    def __str__(self):
        return self._sum.hexdigest()


def digest_of_model(plain, tensors=None):
    """Return the digest of initial weights, of the losses and gradients of a step, or `REFUSED`.

    Dropout draws the same numbers each time.
    """
    try:
        config = validated(plain)
        model = build_model(config, VOCABULARY, {"pad": 0}, SPELLINGS, seed=0).train()
        if tensors is None:
            tensors = batch_for(config.family)
        if config.type_vocab_size:
            tensors = {**tensors, "type_ids": tensors["input_ids"] % 2}
        torch.manual_seed(1)
        losses = model(tensors)
    except ConfigurationError:
        return REFUSED

    weights = model.loss_weights
    digest = Digest()
    torch.autograd.backward(
        sum(weights[name] * loss.total / loss.count for name, loss in losses.items())
    )
    for name, loss in losses.items():
        digest.add(name, loss.total)
    for name, parameter in model.named_parameters():
        digest.add(name, parameter)
        if parameter.grad is not None:
            digest.add(name, parameter.grad)

    for adapter in model.adapters.values():
        for factor in adapter.learning_rate_factors().values():
            digest.add("learning rate", torch.tensor(factor))

    return str(digest)


def head_digest(name, body, options):
    """Return the digest of an encoder with one head, on a batch with everything that heads of
    encoders read."""
    kind = HEADS.load_class(name)
    tensors = head_contract._in_classes(head_contract.batch_of(kind), kind, options)
    return digest_of_model(body | {"heads": {name: options}}, tensors)


def has_value(plain, key, value):
    """Return whether a configuration has this value of a dotted key, perhaps by its defaults."""
    found = to_data(validated(plain))
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found == value
