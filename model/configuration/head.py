"""Configuration of a head: the weight of its loss, and the keys that some heads read."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from clozeline.configuration.config import config_class
from clozeline.configuration.unread_keys import non_default_keys, refuse_unread_keys
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.key_types import Probability, Width, list_to_tuple

_POOLS: Final = {"encoder": "cls", "decoder": "last", "encoder_decoder": "decoder_last"}


@config_class
class HeadConfig:
    """Configuration of a head and of its share in the loss of the model."""

    OF_GROUPS: ClassVar = ("temperature", "group_size", "margin")
    READS: ClassVar = {"other": OF_GROUPS, "bidirectional": OF_GROUPS, "both": OF_GROUPS, "none": ()}
    """Keys of the comparison of rows that each value of `negatives` reads."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the head's mean loss."""
    normalise: Literal["label", "row"] = "label"
    """lm, masked_lm, span_boundary: unit of equal weight in the head's mean: each label, or each row with labels,
    whatever their number (arXiv 2410.24159)."""
    label_chunk: Width | None = None
    """lm, masked_lm: labels whose scores over the vocabulary are held in memory at a time, for a third more arithmetic
    of the head; null = all."""
    transform: bool = True
    """masked_lm: a linear map, activation and norm before the projection; sentence: a linear map and tanh before it."""
    projection: Literal["linear", "biased", "transformed"] = "linear"
    """lm: linear, one linear map onto the vocabulary (GPT-2, Llama, T5); biased, with a bias of each score, as BART's
    `final_logits_bias`; transformed, BERT's head: a linear map, activation and norm, then a projection with a bias."""
    activation_penalty: Annotated[float, Field(ge=0)] = 2.0
    """regularised_lm: factor of the mean square of a state, added in training (arXiv 1708.02182)."""
    change_penalty: Annotated[float, Field(ge=0)] = 1.0
    """regularised_lm: factor of the mean square of its change to the next position, added in training."""
    classes: Width | None = None
    """classification, tagging: number of classes; null = that of `labels`."""
    labels: tuple[str, ...] = ()
    """classification, tagging: names of the classes in order, saved with the model; empty = none."""
    multi_label: bool = False
    """classification: a row has any number of classes, each predicted independently."""
    output: Literal["identity", "sigmoid"] = "identity"
    """regression: identity predicts the number itself; sigmoid maps the score into `range`."""
    range: tuple[float, float] = (0.0, 1.0)
    """regression: lowest and highest number that `output: sigmoid` predicts; similarity with `negatives: none`: the
    `target` of cosines 0 and 1."""
    target_scale: tuple[float, float] | None = None
    """regression with `output: identity`: mean and standard deviation of the numbers. The head learns a number minus
    the mean, divided by the deviation, and predicts the number. null = those of the training rows, without a bias 0 and
    the root mean square; [0, 1] learns numbers as they are."""
    pool: Literal["cls", "mean", "max", "last", "decoder_last", "pair", "late"] | None = None
    """classification, regression, multiple_choice: vector of a row, from its first token, the mean or the maximum of
    all, its last, or the means of a pair's two segments with their distance and product; late scores every token and
    takes the mean of the scores (arXiv 2503.05500). null = cls in an encoder, last in a decoder, decoder_last (the only
    choice) in an encoder_decoder. similarity: cls, mean, max, last; null = a linear map and tanh on the first token."""
    scalar_mix: bool = False
    """Task heads: read a learned mix of the embeddings and of all layers instead of the last layer (ELMo, arXiv
    1802.05365): a weight for each and a gain, at first the mean."""
    exits: Literal["joint", "after"] | None = None
    """classification, regression: a classifier after each layer but the last, too, at which rows may leave. joint = all
    are trained with the body, by the sum of j L_j over that of j (PABEE, arXiv 2006.04152); after = on the frozen body
    and head of model.init_from (DeeBERT, arXiv 2004.12993). null = none."""
    input_dropout: Probability = 0.0
    """Task heads: dropout of the states before the hidden map."""
    hidden: Literal["tanh", "gelu", "gelu_tanh", "relu", "silu", "identity", "auto"] | None = None
    """Task heads: activation of a linear map before the one onto the classes; null = there is none. tanh is BERT's
    pooler. auto = the map, norm and bias of the class of transformers that holds the body, so that `export-model` can
    write the head; where no class does, those of BERT's."""
    hidden_dim: Width | None = None
    """Task heads: width of the hidden map; null = the model's `dim`."""
    hidden_norm: bool = False
    """Task heads: a norm after the hidden activation (ModernBERT)."""
    dropout: Probability | None = None
    """Task heads: dropout before the map onto the classes; null = the model's `dropout.hidden`."""
    bias: bool = True
    """masked_lm, lm: bias of the projection, which a linear lm never has; task heads: of the map onto the classes."""
    max_span_tokens: Annotated[int, Field(ge=1, le=2**16)] = 30
    """span_boundary: tokens of a span with a loss; later ones are not predicted (arXiv 1907.10529)."""
    copy_weight: Annotated[float, Field(ge=0)] = 50.0
    """corrective: factor of the copy loss, relative to the loss of the tokens (arXiv 2102.08473)."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """similarity: divisor of the cosines; SimCSE 0.05 (arXiv 2104.08821), COCO-LM 1."""
    group_size: Annotated[int, Field(ge=2, le=2**20)] = 8
    """similarity: consecutive rows of the global batch whose texts are compared, a divisor of data.micro_batch."""
    negatives: Literal["other", "bidirectional", "both", "none"] = "other"
    """similarity: other, first views are compared with the second views of the group (SimCSE); bidirectional, also
    second views with first ones, and the two losses are added (LaBSE); both, each view with all views of other rows
    (COCO-LM); none, rows are not compared: the loss is the squared difference of the cosine and `target`."""
    margin: Annotated[float, Field(ge=0, lt=2)] = 0.0
    """similarity: what is subtracted from the cosine of two views that belong together (additive margin softmax, arXiv
    1902.08564); LaBSE 0.3 (arXiv 2007.01852)."""
    alike: float | None = None
    """similarity: lowest `target` of two texts that belong together, as the data sets of a task say; pairs below it
    have no loss. null = all pairs belong together."""

    def __post_init__(self) -> None:
        if self.classes is not None and self.labels and len(self.labels) != self.classes:
            raise ValueError(f"classes: expected as many as labels, {len(self.labels)}, got {self.classes}")
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels: expected different names, got {', '.join(self.labels)}")
        if self.exits is not None and (self.multi_label or self.scalar_mix):
            raise ValueError(
                "exits: rows leave with one class or number, from one layer: remove multi_label, scalar_mix"
            )
        refuse_unread_keys(self, "negatives", self.READS)
        if "range" in non_default_keys(self) and self.output == "identity" and self.negatives != "none":
            raise ValueError(
                "range: has no effect without output sigmoid (regression) or negatives none (similarity): set one of "
                "them, or remove the key"
            )
        if self.target_scale is not None:
            if self.output == "sigmoid":
                raise ValueError("target_scale: has no effect with output sigmoid, which has a range: remove the key")
            if self.target_scale[0] and not self.bias:
                raise ValueError(
                    "target_scale: without a bias no map holds a mean: give 0 as the mean, or set bias: true"
                )
            if self.target_scale[1] <= 0:
                raise ValueError(f"target_scale: expected a deviation above 0, got {self.target_scale[1]:g}")
        if not self.range[0] < self.range[1]:
            raise ValueError(f"range: expected a lower number before a higher one, got {list(self.range)}")
        if self.hidden_norm and self.hidden is None:
            raise ValueError("hidden_norm: without a hidden map there is nothing to normalize; set hidden, or drop it")
        if self.hidden_dim is not None and self.hidden is None:
            raise ValueError("hidden_dim: without a hidden map nothing has this width; set hidden, or remove it")

    @property
    def compares_rows(self) -> bool:
        """A head of similarity compares the rows of a group with each other."""
        return self.negatives != "none"

    def pool_in(self, architecture: str) -> str:
        """Return the pool of a family of some architecture."""
        return self.pool or _POOLS[architecture]

    def class_count(self, head: str, least: int) -> int:
        """Return the number of classes; refuse fewer than `least` in the configuration of a head."""
        count = self.classes or len(self.labels)
        if count < least:
            how = "give their number, or their names as labels"
            expected = f"expected {least} or more, got {count or 'none'}"
            raise ConfigurationError(f"model.heads.{head}.classes: {expected}; {how}")
        return count


def _long_form(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: list_to_tuple(part) for key, part in value.items()}
    return {"weight": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _short_form(head: HeadConfig) -> Any:
    changed = {key: list(value) if isinstance(value, tuple) else value for key, value in non_default_keys(head).items()}
    return {"weight": head.weight} | changed if changed.keys() - {"weight"} else head.weight


HeadEntry: TypeAlias = Annotated[HeadConfig, BeforeValidator(_long_form), PlainSerializer(_short_form)]
"""A value of `model.heads`: the keys of a head, or only its weight."""
