"""Tables that model types share: keys of config.json, modules of layers, and task heads."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from torch import Tensor

from clozeline.model.checkpoints._conversion.task_heads import Task

Keys: TypeAlias = Mapping[str, Any]
"""Content of config.json."""
Values: TypeAlias = dict[str, Any]
"""Values of keys, theirs or ours."""
Tensors: TypeAlias = Mapping[str, Tensor]
"""Tensors of a file by their names."""
Table: TypeAlias = Mapping[str, str | tuple[str, Any]]
"""Our keys, and theirs with or without a default."""
ACTIVATIONS: Final = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
QKV: Final = tuple(f"attention.body.{name}" for name in ("query", "key", "value"))
GATED: Final = ("feed_forward.body.gate", "feed_forward.body.up")
SIZES: Final = {
    "dim": "hidden_size",
    "layers": "num_hidden_layers",
    "attention_heads": "num_attention_heads",
    "ffn_dim": "intermediate_size",
}
"""Keys of sizes in most types."""
DROPOUT: Final = "classifier_dropout"
ANSWER: Final = Task("qa_outputs", options={"dropout": 0.0})
"""Start and end of an answer."""
TAGS: Final = Task("classifier", dropout=DROPOUT)
"""Classes of tokens."""
DECODER_TAGS: Final = Task("classifier", dropout=DROPOUT, usual=0.1)
SCORE: Final = Task("score", options={"bias": False, "dropout": 0.0})
"""Classifier of a row in decoders."""
CLASSES: Final = Task(
    *("classification_head.out_proj", "classification_head.dense"),
    options={"hidden": "tanh"},
    dropout=DROPOUT,
    usual=0.0,
    twice=True,
)
"""Classifier of a row in encoder-decoders."""


class Slice(NamedTuple):
    """One of several parts of a fused projection, counted along its outputs."""

    module: str
    part: int
    of: int
    groups: int = 1
    """equal groups of outputs, one after another, each of which has all parts: those of each head
    in turn"""
    sizes: tuple[int, ...] = ()
    """relative sizes of the parts; empty: they are equal"""


class Reshaped(NamedTuple):
    """A parameter that has more axes in a checkpoint."""

    name: str
    shape: tuple[int, ...]
    """-1 is the size of our first axis, transposed or not; the sizes after it split our last
    axis"""


Names: TypeAlias = Mapping[str, str | Slice | Reshaped]
"""Our modules, or complete parameter names, and theirs."""


class Target(NamedTuple):
    """Location of one of our parameters in a checkpoint."""

    name: str
    part: int
    sizes: tuple[int, ...]
    """relative sizes of the parts of the tensor along its outputs, of which this is number
    `part`"""
    groups: int
    """equal groups of outputs, each of which has all parts"""
    transposed: bool
    """stored [in, out]"""
    shape: tuple[int, ...] | None
    """shape of the checkpoint's tensor, see `Reshaped`; None: that of ours, transposed or not"""


class HeadedClass(NamedTuple):
    """A class of transformers with pretraining heads."""

    heads: tuple[str, ...]
    name: str
    auto: str
    """auto class that loads it"""


def pool_name(pools: Mapping[str, str], pool: str) -> str:
    """Return a class's name of one of our pools, by `pools` from its names to ours.

    A pool that the class lacks gets the first name: an export that reads back another pool is
    refused.
    """
    return next((theirs for theirs, ours in pools.items() if ours == pool), next(iter(pools)))


def layer_names(
    ours: str, theirs: str, names: Mapping[str, str]
) -> dict[str, str | Slice | Reshaped]:
    """Return the modules of one stack's layers: `layer_names("family.stack", "bert.encoder.layer", {...})`."""
    return {
        f"{ours}.layers.{{i}}.{name}": f"{theirs}.{{i}}.{target}" for name, target in names.items()
    }


def attention_names(query: str, key: str, value: str, out: str) -> dict[str, str]:
    """Return the projections of a layer's attention."""
    return dict(zip((*QKV, "attention.body.out"), (query, key, value, out), strict=True))


def fused_names(theirs: str, parts: Sequence[str], **more: Any) -> dict[str, Slice]:
    """Return modules of a layer that a checkpoint stores fused, in the order of `parts`; `more` is that of `Slice`."""
    at = "family.stack.layers.{i}."
    return {
        f"{at}{name}": Slice(theirs, part, len(parts), **more) for part, name in enumerate(parts)
    }
