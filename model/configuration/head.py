"""Options of heads: the keys of every head, and those that several share; a head adds its own in its file."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from clozeline.configuration.config import config_class, validate
from clozeline.configuration.named_algorithms import IsName
from clozeline.configuration.unread_keys import non_default_keys
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.key_types import Probability, Width
from clozeline.model.registries import HEADS

_POOLS: Final = {"encoder": "cls", "decoder": "last", "encoder_decoder": "decoder_last"}


@config_class
class HeadOptions:
    """Keys of every head.

    Its properties are what others ask of any head. A head with a key of that name answers with its
    value.
    """

    compared: ClassVar[tuple[str, ...]] = ()
    """Keys that decide what the head computes; a class of transformers may have one value of each
    only."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the head's mean loss."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its classes in order."""
        return ()

    @property
    def class_count(self) -> int:
        """Number of its classes; 0: it does not say it."""
        return 0

    @property
    def problem_type(self) -> str | None:
        """Name of its loss in classes of transformers; None: they have only one."""
        return None

    @property
    def pool(self) -> str | None:
        """Pool that it configures for the vector of a row."""
        return None

    @property
    def scalar_mix(self) -> bool:
        """It reads a learned mix of all layers."""
        return False

    @property
    def exits(self) -> Literal["joint", "after"] | None:
        """It has a classifier after each layer, at which rows may leave."""
        return None

    @property
    def transform(self) -> bool:
        """It maps states before its projection, or would if it had one."""
        return True

    @property
    def projection(self) -> Literal["linear", "biased", "transformed"]:
        """Form of its projection onto the vocabulary."""
        return "linear"

    @property
    def unit(self) -> Literal["label", "row"]:
        """Unit of equal weight in its mean loss."""
        return "label"

    @property
    def label_chunk(self) -> int | None:
        """Labels whose scores it holds in memory at a time; None: all."""
        return None

    @property
    def compared_rows(self) -> int | None:
        """Consecutive rows that it compares with each other; None: it reads each row alone."""
        return None

    def pool_in(self, architecture: str) -> str:
        """Return the pool in a family of some architecture."""
        return self.pool or _POOLS[architecture]

    def differences(
        self, theirs: "HeadOptions", architecture: str
    ) -> dict[str, tuple[object, object]]:
        """Return the keys by which it computes something else than another head of its class, with both values."""
        values = {key: (getattr(self, key), getattr(theirs, key)) for key in self.compared}
        return {key: (ours, other) for key, (ours, other) in values.items() if ours != other}


@config_class
class LabelOptions(HeadOptions):
    """Keys of a head with a loss at labeled positions."""

    normalize: Literal["label", "row"] = "label"
    """Unit of equal weight in the head's mean: each label, or each row with labels, whatever their
    number (arXiv 2410.24159)."""

    @property
    def unit(self) -> Literal["label", "row"]:
        """Unit of equal weight in its mean loss."""
        return self.normalize


@config_class
class VocabularyOptions(LabelOptions):
    """Keys of a head that projects labeled positions onto the vocabulary."""

    compared: ClassVar[tuple[str, ...]] = ("bias",)

    bias: bool = True
    """Bias of the projection, which a linear lm never has."""
    label_chunk: Width | None = None
    """Labels whose scores over the vocabulary are held in memory at a time, for a third more
    arithmetic of the head; null = all."""


@config_class
class ClassOptions(HeadOptions):
    """Keys of a head with scores of classes."""

    classes: Width | None = None
    """Number of classes; null = that of `labels`."""
    labels: tuple[str, ...] = ()
    """Names of the classes in order, saved with the model; empty = none."""

    def __post_init__(self) -> None:
        if self.classes is not None and self.labels and len(self.labels) != self.classes:
            raise ValueError(
                f"classes: expected as many as labels, {len(self.labels)}, got {self.classes}"
            )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels: expected different names, got {', '.join(self.labels)}")

    @property
    def class_count(self) -> int:
        """Number of its classes; 0: neither key says it."""
        return self.classes or len(self.labels)

    def require_classes(self, head: str, least: int) -> int:
        """Return the number of classes; refuse fewer than `least` in the configuration of a head."""
        if (count := self.class_count) < least:
            how = "give their number, or their names as labels"
            expected = f"expected {least} or more, got {count or 'none'}"
            raise ConfigurationError(f"model.heads.{head}.classes: {expected}; {how}")
        return count


@config_class
class ClassifierOptions(HeadOptions):
    """Keys of a head of tasks: the maps from a state to its scores."""

    compared: ClassVar[tuple[str, ...]] = ("hidden", "hidden_dim", "hidden_norm", "bias")

    scalar_mix: bool = False
    """Read a learned mix of the embeddings and of all layers instead of the last layer (ELMo, arXiv
    1802.05365): a weight for each and a gain, at first the mean."""
    input_dropout: Probability = 0.0
    """Dropout of the states before the hidden map."""
    hidden: Literal["tanh", "gelu", "gelu_tanh", "relu", "silu", "identity", "auto"] | None = None
    """Activation of a linear map before the one onto the classes; null = there is none. tanh is
    BERT's pooler. auto = the map, norm and bias of the class of transformers that holds the body,
    so that `export-model` can write the head; where no class does, those of BERT's."""
    hidden_dim: Width | None = None
    """Width of the hidden map; null = the model's `dim`."""
    hidden_norm: bool = False
    """A norm after the hidden activation (ModernBERT)."""
    dropout: Probability | None = None
    """Dropout before the map onto the classes; null = the model's `dropout.hidden`."""
    bias: bool = True
    """Bias of the map onto the classes."""

    def __post_init__(self) -> None:
        if self.hidden_norm and self.hidden is None:
            raise ValueError(
                "hidden_norm: without a hidden map there is nothing to normalize; set hidden, or "
                "drop it"
            )
        if self.hidden_dim is not None and self.hidden is None:
            raise ValueError(
                "hidden_dim: without a hidden map nothing has this width; set hidden, or remove it"
            )


@config_class
class RowOptions(ClassifierOptions):
    """Keys of a head that pools the states of a row."""

    pool: Literal["cls", "mean", "max", "last", "decoder_last", "pair", "late"] | None = None
    """Vector of a row, from its first token, the mean or the maximum of all, its last, or the means
    of a pair's two segments with their distance and product; late scores every token and takes the
    mean of the scores (arXiv 2503.05500). null = cls in an encoder, last in a decoder, decoder_last
    (the only choice) in an encoder_decoder."""

    def differences(
        self, theirs: HeadOptions, architecture: str
    ) -> dict[str, tuple[object, object]]:
        """Return the keys by which it computes something else than another head of its class, with both values."""
        ours = self.pool_in(architecture)
        other = theirs.pool_in(architecture)
        differing = super().differences(theirs, architecture)
        return differing if ours == other else {**differing, "pool": (ours, other)}


@config_class
class ExitOptions(RowOptions):
    """Keys of a head of rows that may have more heads like it, after the layers before the last."""

    exits: Literal["joint", "after"] | None = None
    """A classifier after each layer but the last, too, at which rows may leave. joint = all are
    trained with the body, by the sum of j L_j over that of j (PABEE, arXiv 2006.04152); after = on
    the frozen body and head of model.init_from (DeeBERT, arXiv 2004.12993). null = none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exits is not None and self.scalar_mix:
            raise ValueError("exits: rows leave from one layer: remove scalar_mix")


def default_labels(count: int) -> tuple[str, ...]:
    """Return the names that transformers gives to unnamed labels."""
    return tuple(f"LABEL_{number}" for number in range(count))


def keys_of_labels(labels: tuple[str, ...]) -> dict[str, object]:
    """Return the keys of a head with these classes; names that transformers made up are none."""
    count = len(labels)
    return (
        {"classes": count}
        if labels == default_labels(count)
        else {"classes": count, "labels": labels}
    )


def module_name(head: str) -> str:
    """Return the name of a head among the modules of a network, which have no dots: hyphens for those of its name."""
    return head.replace(".", "-")


def _read_heads(value: object) -> dict[str, HeadOptions]:
    """Return the options of each head in a mapping, as the class of the head validates them."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected a mapping from heads to their weights or keys, got {value!r}")
    try:
        return {HEADS.full_name(name): _read_head(name, head) for name, head in value.items()}
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def _read_head(name: str, value: object) -> HeadOptions:
    kind: type[HeadOptions] = HEADS.load_class(name).Options
    if isinstance(value, kind):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = {"weight": value}
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"model.heads.{name}: expected a weight or a mapping of keys, got {value!r}"
        )
    own = _keys_of(kind)
    for key in value.keys() - own:
        if readers := [
            other for other in HEADS.available() if key in _keys_of(HEADS.load_class(other).Options)
        ]:
            raise ConfigurationError(
                f"model.heads.{name}.{key}: the head {name} does not read this key, which is one "
                "of "
                f"{', '.join(readers)}; it reads {', '.join(own)}"
            )
    options: HeadOptions = validate(kind, dict(value), "", f"model.heads.{name}.")
    return options


def _keys_of(kind: type[HeadOptions]) -> list[str]:
    return [field.name for field in fields(kind)]


def _plain_head(head: HeadOptions) -> object:
    """Return the weight of a head, or its weight and the keys that differ from their defaults."""
    changed = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in non_default_keys(head).items()
    }
    return {"weight": head.weight} | changed if changed.keys() - {"weight"} else head.weight


Heads: TypeAlias = Annotated[
    dict[Annotated[str, IsName()], HeadOptions],
    BeforeValidator(_read_heads),
    PlainSerializer(lambda heads: {name: _plain_head(head) for name, head in heads.items()}),
]
"""The value of `model.heads`: names of heads, each with its keys, or only its weight."""
