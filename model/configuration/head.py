"""Options of heads: keys of every head, and keys that several heads share.

Keys of a single head stand in its own file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from clozeline.configuration.added_keys import Extensible, add_keys
from clozeline.configuration.config import OnlyTraining, computing_keys, config_class, validate
from clozeline.configuration.named_algorithms import IsName
from clozeline.configuration.unread_keys import non_default_keys
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head_keys import HeadKey
from clozeline.model.configuration.key_types import Activation, Probability, Width
from clozeline.model.registries import HEAD_KEYS, HEADS

Better: TypeAlias = Literal["higher", "lower"]
"""Direction in which a metric is better."""
_POOLS: Final = {"encoder": "cls", "decoder": "last", "encoder_decoder": "decoder_last"}


@config_class
class HeadOptions:
    """Keys of every head.

    Other code asks any head for its properties; a head with a key of that name returns its value.
    """

    compared_apart: ClassVar[tuple[str, ...]] = (
        *("pool", "projection", "classes", "labels", "range", "target_scale"),
    )
    """Keys that an export compares in their own way, or writes: they hold for any value."""

    weight: OnlyTraining[Annotated[float, Field(gt=0)]] = 1.0
    """Factor of the head's mean loss."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its classes, in order."""
        return ()

    @property
    def class_count(self) -> int:
        """Number of its classes; 0 if the configuration does not say."""
        return 0

    @property
    def problem_type(self) -> str | None:
        """`problem_type` of its loss in classes of transformers; None: they have only one loss."""
        return None

    @property
    def multi_label(self) -> bool:
        """Whether a row has any number of its classes."""
        return False

    @property
    def pool(self) -> str | None:
        """How it pools the states of a row, if the configuration says so."""
        return None

    @property
    def scalar_mix(self) -> bool:
        """Whether it reads a learned mix of all layers."""
        return False

    @property
    def transform(self) -> bool:
        """Whether it maps states before its projection; True also for a head without projection."""
        return True

    @property
    def projection(self) -> Literal["linear", "biased", "transformed"]:
        """Form of its projection onto the vocabulary."""
        return "linear"

    @property
    def normalize(self) -> Literal["label", "row"]:
        """Unit that has equal weight in its mean loss."""
        return "label"

    @property
    def label_chunk(self) -> int | None:
        """Labels whose scores it holds in memory at a time; None: all."""
        return None

    @property
    def activation(self) -> Activation | None:
        """Activation of the map before its projection; None: the model's."""
        return None

    @property
    def z_loss(self) -> float:
        """Factor of log² Z in its training loss."""
        return 0.0

    @property
    def compared_rows(self) -> int | None:
        """Number of consecutive rows that it compares; None: it reads each row by itself."""
        return None

    def parts(self) -> Iterator[HeadKey]:
        """Yield the keys of extensions that are set."""
        yield from ()

    def pool_in(self, architecture: str) -> str:
        """Return the pooling in a family of this architecture."""
        return self.pool or _POOLS[architecture]

    def differences(
        self, other: "HeadOptions", architecture: str
    ) -> dict[str, tuple[object, object]]:
        """Return the keys of `other` that make it compute something else, with both values."""
        keys = computing_keys(other).keys() - self.compared_apart
        values = {key: (getattr(self, key), getattr(other, key)) for key in sorted(keys)}
        return {key: pair for key, pair in values.items() if pair[0] != pair[1]}


@config_class
class LabelOptions(HeadOptions):
    """Keys of a head with a loss at labeled positions."""

    normalize: OnlyTraining[Literal["label", "row"]] = "label"
    """Unit of equal weight in the head's mean: each label, or each row with labels, whatever their
    number (arXiv 2410.24159)."""


@config_class
class VocabularyOptions(LabelOptions):
    """Keys of a head that projects labeled positions onto the vocabulary."""

    bias: bool = True
    """Bias of the projection; an lm head with a linear projection never has one."""
    activation: Activation | None = None
    """Activation of the map before the projection; null = model.activation."""
    label_chunk: OnlyTraining[Width | None] = None
    """Number of labels whose scores over the vocabulary are in memory at a time: less memory, and a
    third more arithmetic in the head; null = all."""
    z_loss: OnlyTraining[Annotated[float, Field(ge=0)]] = 0.0
    """Factor of log² Z of each label in the training loss, where Z is the sum of its exponentials
    (PaLM has 1e-4, arXiv 2204.02311); no evaluation has it."""


@config_class
class ClassOptions(HeadOptions):
    """Keys of a head with scores of classes."""

    classes: Width | None = None
    """Number of classes; null = the number of `labels`."""
    labels: tuple[str, ...] = ()
    """Names of the classes in order, saved with the model; empty = no names."""

    def __post_init__(self) -> None:
        if self.classes is not None and self.labels and len(self.labels) != self.classes:
            raise ValueError(
                f"classes: expected {len(self.labels)}, the number of labels, got {self.classes}"
            )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels: expected different names, got {', '.join(self.labels)}")

    @property
    def class_count(self) -> int:
        """Number of its classes; 0 if neither key says it."""
        return self.classes or len(self.labels)

    def require_classes(self, head: str, least: int) -> int:
        """Return the number of classes.

        Raises:
            ConfigurationError: the head has fewer than `least`.
        """
        if (count := self.class_count) < least:
            how = "set their number, or set labels to their names"
            expected = f"expected {least} or more, got {count or 'none'}"
            raise ConfigurationError(f"model.heads.{head}.classes: {expected}; {how}")
        return count


@config_class
class ClassifierOptions(HeadOptions):
    """Keys of a task head: the maps from a hidden state to its scores."""

    scalar_mix: bool = False
    """Read a learned mix of the embeddings and all layers instead of the last layer (ELMo, arXiv
    1802.05365): a weight per layer and a gain, initially the mean."""
    input_dropout: OnlyTraining[Probability] = 0.0
    """Dropout of the states before the hidden map."""
    hidden: Literal["tanh", "gelu", "gelu_tanh", "relu", "silu", "identity", "auto"] | None = None
    """Activation of a linear map before the map onto the classes; null = no such map. tanh is
    BERT's pooler. auto = the map, norm and bias of the transformers class that contains the body,
    so that `export-model` can write the head; without such a class, those of BERT."""
    hidden_dim: Width | None = None
    """Width of the hidden map; null = the model's `dim`."""
    hidden_norm: bool = False
    """A norm after the hidden activation (ModernBERT)."""
    dropout: OnlyTraining[Probability | None] = None
    """Dropout before the map onto the classes; null = the model's `dropout.hidden`."""
    bias: bool = True
    """Bias of the map onto the classes."""

    def __post_init__(self) -> None:
        if self.hidden_norm and self.hidden is None:
            raise ValueError(
                "hidden_norm: there is no hidden map to normalize; set hidden, or remove "
                "hidden_norm"
            )
        if self.hidden_dim is not None and self.hidden is None:
            raise ValueError(
                "hidden_dim: there is no hidden map of this width; set hidden, or remove hidden_dim"
            )


@config_class
class RowHeadOptions(ClassifierOptions):
    """Keys of a head that pools the states of a row into one vector."""

    pool: Literal["cls", "mean", "max", "last", "decoder_last", "pair", "late"] | None = None
    """How the states of a row become a vector: the first token, the mean or maximum of all, the
    last token, or pair: the means of a pair's two segments with their distance and product. late
    scores every token and averages the scores (arXiv 2503.05500). null = cls in an encoder, last in
    a decoder, decoder_last (the only choice) in an encoder_decoder."""

    def differences(
        self, other: HeadOptions, architecture: str
    ) -> dict[str, tuple[object, object]]:
        """Return the keys that make it compute something else than `other`, with both values."""
        pools = (self.pool_in(architecture), other.pool_in(architecture))
        differing = super().differences(other, architecture)
        return differing if pools[0] == pools[1] else {**differing, "pool": pools}


@config_class
@add_keys(HEAD_KEYS.added_keys())
class SingleAnswerOptions(Extensible, RowHeadOptions):
    """Keys of a head with one answer for a row, to which extensions add others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in self.parts():
            key.check(self)


def default_labels(count: int) -> tuple[str, ...]:
    """Return the names that transformers gives to labels without names."""
    return tuple(f"LABEL_{number}" for number in range(count))


def label_keys(labels: tuple[str, ...]) -> dict[str, object]:
    """Return the keys of a head with these classes, without names that transformers made up."""
    count = len(labels)
    return (
        {"classes": count}
        if labels == default_labels(count)
        else {"classes": count, "labels": labels}
    )


def module_name(head: str) -> str:
    """Return the name of a head as a module: module names have no dots, so dots become hyphens."""
    return head.replace(".", "-")


def _read_heads(value: object) -> dict[str, HeadOptions]:
    """Return the options of each head in a mapping, validated by the head's class."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected a mapping from heads to their weights or keys, got {value!r}")
    try:
        return {HEADS.full_name(name): _read_head(name, head) for name, head in value.items()}
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def _read_head(name: str, value: object) -> HeadOptions:
    option_class: type[HeadOptions] = HEADS.load_class(name).Options
    if isinstance(value, option_class):
        return value
    # a number is short for the weight alone
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = {"weight": value}
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"model.heads.{name}: expected a weight or a mapping of keys, got {value!r}"
        )

    known = _key_names(option_class)
    for key in value.keys() - known:
        if readers := [
            other for other, head in HEADS.classes().items() if key in _key_names(head.Options)
        ]:
            raise ConfigurationError(
                f"model.heads.{name}.{key}: the head {name} does not have this key. It is a key of "
                f"{', '.join(readers)}; {name} has {', '.join(known)}"
            )

    options: HeadOptions = validate(option_class, dict(value), "", f"model.heads.{name}.")
    return options


def _key_names(option_class: type[HeadOptions]) -> list[str]:
    return [field.name for field in fields(option_class)]


def _head_to_data(head: HeadOptions) -> object:
    """Return the weight of a head, or its weight and the keys that differ from their defaults."""
    changed = {
        key: list(value) if isinstance(value, tuple) else getattr(value, "value", value)
        for key, value in non_default_keys(head).items()
    }
    return {"weight": head.weight} | changed if changed.keys() - {"weight"} else head.weight


Heads: TypeAlias = Annotated[
    dict[Annotated[str, IsName()], HeadOptions],
    BeforeValidator(_read_heads),
    PlainSerializer(lambda heads: {name: _head_to_data(head) for name, head in heads.items()}),
]
"""The value of `model.heads`: each head by name, with its keys or only its weight."""
