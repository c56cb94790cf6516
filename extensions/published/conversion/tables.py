"""Tables that model types share: keys of config.json, modules of layers, and task heads."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from torch import Tensor

from clozeline.extensions.published.conversion.task_heads import TaskHeadNames

Keys: TypeAlias = Mapping[str, Any]
"""Content of config.json."""
Values: TypeAlias = dict[str, Any]
"""Keys with values: keys of config.json, or our configuration's dotted keys."""
Tensors: TypeAlias = Mapping[str, Tensor]
"""Tensors of a file by their names."""
Table: TypeAlias = Mapping[str, str | tuple[str, Any]]
"""Our keys, each with its key of config.json and the default, if the key has one."""
ACTIVATIONS: Final = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "relu2": "relu_squared",
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
"""Keys of config.json for sizes, in most model types."""
DROPOUT: Final = "classifier_dropout"
ANSWER: Final = TaskHeadNames("qa_outputs", options={"dropout": 0.0})
"""Layout of the head for the start and end of an answer."""
TAGS: Final = TaskHeadNames("classifier", dropout=DROPOUT)
"""Layout of the head that classifies tokens."""
DECODER_TAGS: Final = TaskHeadNames("classifier", dropout=DROPOUT, default_dropout=0.1)
"""Layout of the head that classifies tokens in decoders."""
SCORE: Final = TaskHeadNames("score", options={"bias": False, "dropout": 0.0})
"""Layout of the head that classifies rows in decoders."""
CLASSES: Final = TaskHeadNames(
    *("classification_head.out_proj", "classification_head.dense"),
    options={"hidden": "tanh"},
    dropout=DROPOUT,
    default_dropout=0.0,
    twice=True,
)
"""Layout of the head that classifies rows in encoder-decoders."""


class Slice(NamedTuple):
    """One of several parts of a fused projection, counted along its outputs."""

    module: str
    part: int
    of: int
    groups: int = 1
    """number of equal groups of outputs, each of which has all parts: one per head"""
    sizes: tuple[int, ...] = ()
    """relative sizes of the parts; empty: equal sizes"""


class Reshaped(NamedTuple):
    """The tensor of a checkpoint that has more axes than our parameter."""

    name: str
    shape: tuple[int, ...]
    """-1 is the size of our first axis, transposed or not; the sizes after it split our last
    axis"""


Names: TypeAlias = Mapping[str, str | Slice | Reshaped]
"""Our modules, or complete parameter names, and their names in the checkpoint."""


class Target(NamedTuple):
    """Where a checkpoint stores one of our parameters."""

    name: str
    part: int
    sizes: tuple[int, ...]
    """relative sizes of the parts of the tensor along its outputs; ours has the number `part`"""
    groups: int
    """number of equal groups of outputs, each of which has all parts"""
    transposed: bool
    """whether the tensor is stored as [in, out]"""
    shape: tuple[int, ...] | None
    """shape of the checkpoint's tensor, see `Reshaped`; None: our shape, transposed or not"""


class HeadedClass(NamedTuple):
    """A class of transformers with pretraining heads."""

    heads: tuple[str, ...]
    name: str
    auto: str
    """auto class that loads the class, such as AutoModelForMaskedLM"""


def pool_name(pools: Mapping[str, str], pool: str) -> str:
    """Return a transformers class's name of one of our pools; `pools` maps its names to ours.

    If the class lacks a pool, the first name is returned, and the export is refused because it
    reads back another pool.
    """
    return next((name for name, ours in pools.items() if ours == pool), next(iter(pools)))


def layer_names(
    ours: str, published: str, names: Mapping[str, str]
) -> dict[str, str | Slice | Reshaped]:
    """Return the modules of the layers of a stack.

    For example `layer_names("family.stack", "bert.encoder.layer", {...})`.
    """
    return {
        f"{ours}.layers.{{i}}.{name}": f"{published}.{{i}}.{target}"
        for name, target in names.items()
    }


def attention_names(query: str, key: str, value: str, out: str) -> dict[str, str]:
    """Return the names of the projections of a layer's attention."""
    return dict(zip((*QKV, "attention.body.out"), (query, key, value, out), strict=True))


def fused_names(published: str, parts: Sequence[str], **more: Any) -> dict[str, Slice]:
    """Return modules of a layer that a checkpoint stores fused, in the order of `parts`.

    `more` are further arguments of `Slice`.
    """
    layer = "family.stack.layers.{i}."
    return {
        f"{layer}{name}": Slice(published, part, len(parts), **more)
        for part, name in enumerate(parts)
    }
