"""The interface of heads, which are losses on hidden states, and the bases of several heads.

The bases predict labeled positions, rows, or tokens of the vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from clozeline import plugins
from clozeline.arrays import Int64
from clozeline.columns import IGNORED, LABEL_IDS, LABEL_INDEX, SECOND_VIEW, BatchField
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import (
    Better,
    HeadOptions,
    LabelOptions,
    RowHeadOptions,
    module_name,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.pooling import PAIR_FEATURES, Classifier, ScalarMix, pool
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.loss import (
    Loss,
    count_labels,
    cross_entropy_sum_in_chunks,
    gather_labels,
    row_labels,
    rows_of_examples,
    weigh_rows_equally,
    weighted_labels,
)
from clozeline.model.parameters.flops import matrix_flops


class StoredColumns(Protocol):
    """The stored columns of a micro-batch of B rows, from which a head builds tensors."""

    tensors: Mapping[str, Tensor]
    """tensors of the batch so far, with its labels"""
    ids: Int64
    """padded input ids [B, T]"""
    lengths: Int64
    """tokens of each row [B]"""
    pad: int
    """id of padding"""

    def has(self, name: str) -> bool:
        """Return whether a set of the stream has this column; here it may be empty."""

    def flat(self, name: str) -> tuple[Int64, Int64]:
        """Return all values of a column [N] in row order, and the row of each value [N]."""

    def padded(self, name: str, pad: int) -> tuple[Int64, Int64]:
        """Return a column as a padded matrix [B, max(1, longest)], and its lengths [B]."""

    def scalars(self, name: str) -> Int64:
        """Return the single value of each row [B], 0 for rows without one."""


class Head(nn.Module, ABC):
    """A loss on hidden states: a sum over labels, and the divisor of that sum."""

    Options: ClassVar[type[HeadOptions]] = HeadOptions
    """Keys of its configuration."""
    target: ClassVar[str]
    """Target of the prediction, as objectives name it in `heads`; several heads may share it."""
    reads: ClassVar[tuple[BatchField, ...]]
    """Tensors that it reads from a batch, in addition to the family's and `row_weight`; further
    columns are declared by `Feature.fields`. A head that reads `SECOND_VIEW` also gets `hidden_b`
    [B, Tb, dim], the family's states of that view."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Its columns that `tensors` reads; each other column becomes a tensor by its role."""
    host_tensors: ClassVar[frozenset[str]] = frozenset()
    """Tensors that it reads, and that `add_host_shapes` computes on the host."""
    unit: ClassVar[Literal["label", "token", "row"]] = "label"
    """Unit of its predictions: labeled positions, all tokens of the labeled rows, or rows."""
    left_padding: ClassVar[bool] = False
    """Whether it can read rows that are padded on the left."""
    figures: ClassVar[Mapping[str, Better | None]] = MappingProxyType({})
    """Names of the sums that `metrics` returns, and which values are better; None: neither."""
    class_ending: ClassVar[str | None] = None
    """Ending of the transformers class with this head, such as `ForTokenClassification`; None: no
    class has it."""
    options: HeadOptions

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.options = config.heads[self.key()]
        self.mix: ScalarMix | None = None
        """Mix of the states of all layers, read instead of the last layer; the model sets it."""

    @classmethod
    def key(cls) -> str:
        """Return its key in `model.heads`."""
        return plugins.name_of(cls)

    @classmethod
    def reads_second_view(cls) -> bool:
        """Return whether it compares the states of two views of a row."""
        return SECOND_VIEW.ids in cls.reads

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        """Return its keys from the labels and the problem type in the config.json of its class.

        None: with these, the class has another head.

        Raises:
            ConfigurationError: the class computes something that is not implemented.
        """
        return {}

    @classmethod
    def in_class(
        cls, options: Any, tensors: Mapping[str, Tensor], place: str
    ) -> tuple[HeadOptions, dict[str, Tensor]]:
        """Return keys, and changed tensors, of an equal head that a class of transformers has.

        `place` is the start of the names of its tensors.
        """
        return options, {}

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return the tensors of `columns`; rows without the columns have no label."""
        return {}

    @abstractmethod
    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed loss, an fp32 scalar.

        Without labels it is 0, with a gradient path to every parameter.
        """

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the divisor of the sum, an integer scalar on the batch's device.

        It depends on inputs alone. Default: the number of its `labels` that have a loss.
        """
        return (self.labels(tensors)[1] != 0).sum()

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [B, T, dim] to [B, T, classes], or the scores of rows."""

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of a batch; heads of rows also read which positions hold tokens."""
        return self.logits(hidden)

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums named in `figures`, logged as shares of the divisor."""
        return {}

    def loss(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Loss:
        """Return sum and divisor of a batch, weighted by the unit of the options."""
        weighted = self._weigh(tensors)
        total = self(hidden, weighted)
        with torch.no_grad():
            return Loss(total, self.divisor(weighted), self.metrics(hidden, weighted))

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the divisor of a batch as a number, without waiting for a batch on the host."""
        return int(self.divisor(self._weigh(tensors)))

    @property
    def label(self) -> str | None:
        """Tensor with the class of each row, if it predicts that."""
        return None

    def labels(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the correct class of each prediction and its weight in the loss, 0 for none.

        [n] int64, a token id, class or choice, and [n] fp32; empty for a head that predicts
        something else.
        """
        if self.label is None:
            none = tensors["row_weight"][:0]
            return none.long(), none
        classes = row_labels(tensors, self.label)
        return classes, (classes != IGNORED).float()

    def label_limit(self, width: int) -> int | None:
        """Return the bound that labels must be below: the number of scores; None: no such bound.

        A head with a single score, or whose labels are not indices of its scores, returns None.
        Only the shape of the scores matters, so the head may be on torch's device `meta`. `width`
        is `dim`, the width of the states.
        """
        states = torch.zeros(1, 1, width, device=next(self.parameters()).device)
        scores = self.logits(states).shape[-1]
        return scores if scores > 1 else None

    @property
    def flops_unit(self) -> str:
        """Unit for which `flops` counts."""
        return self.unit

    def flops(self) -> float:
        """Return the forward FLOPs for one `flops_unit`: each matrix entry is used once."""
        return matrix_flops(self)

    def _weigh(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return (
            tensors
            if self.options.normalize == "label"
            else weigh_rows_equally(tensors, self.key())
        )


class Heads(nn.ModuleDict):
    """The heads of a model by name; names may contain dots."""

    def __init__(self, heads: Mapping[str, Head]) -> None:
        super().__init__({module_name(name): head for name, head in heads.items()})
        self.names = tuple(heads)

    def __getitem__(self, name: str) -> nn.Module:
        return super().__getitem__(module_name(name))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def keys(self) -> KeysView[str]:
        return dict.fromkeys(self.names).keys()

    def items(self) -> ItemsView[str, nn.Module]:
        return dict(zip(self.names, self.values(), strict=True)).items()


class LabelHead(Head):
    """Cross entropy at the labeled positions; no other position is projected."""

    left_padding: ClassVar = True
    reads: ClassVar[tuple[BatchField, ...]] = (LABEL_INDEX, LABEL_IDS)
    Options = LabelOptions

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        z_loss = self.options.z_loss if self.training else 0.0
        return cross_entropy_sum_in_chunks(
            self.logits, gather_labels(hidden, tensors), self.options.label_chunk, z_loss
        )

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return count_labels(tensors)

    def labels(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return labels and weights; empty if the head also predicts other positions."""
        if self.unit != "label":
            return super().labels(tensors)
        return weighted_labels(self._weigh(tensors))


class RowHead(Head):
    """A head that pools the states of a row and maps this vector to scores."""

    unit: ClassVar = "row"
    left_padding: ClassVar = True
    host_tensors = frozenset({"choice_rows"})
    Options = RowHeadOptions
    options: RowHeadOptions

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.pool = self.options.pool_in(config.architecture)
        if (self.pool == "decoder_last") != (config.architecture == "encoder_decoder"):
            raise ConfigurationError(
                f"model.heads.{self.key()}.pool: an encoder_decoder has the pool decoder_last, and "
                f"no other family has it; got {self.pool} for {config.architecture}: remove the key"
            )
        features = PAIR_FEATURES if self.pool == "pair" else 1
        self.classifier = Classifier(config, self.options, self.outputs(), features * config.dim)

    @property
    def flops_unit(self) -> str:
        return "token" if self.pool == "late" else self.unit

    def outputs(self) -> int:
        """Return the number of scores of a row."""
        return 1

    def label_limit(self, width: int) -> int | None:
        return count if (count := self.outputs()) > 1 else None

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of rows, [B, T, dim] to [B, scores].

        The rows of an example, such as the two orders of a pair, are added before the classifier.
        """
        if self.pool == "late":
            return self.join(pool("mean", self.logits(hidden), tensors), tensors)
        return self.logits(self.join(pool(self.pool, hidden, tensors), tensors))

    def join(self, vectors: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the vectors of each example's rows, [B, dim] to [E, dim].

        (Radford et al. 2018 §3.3)
        """
        if "choices" not in tensors:
            return vectors
        rows = rows_of_examples(tensors).to(vectors.device)
        return vectors[rows.clamp(min=0)].masked_fill((rows < 0)[..., None], 0.0).sum(1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of pooled vectors: [B, dim] to [B, scores]."""
        return self.classifier(hidden)


class VocabularyHead(LabelHead):
    """A projection onto the vocabulary, with a linear map, activation and norm before it.

    `is_transformed` says whether these exist.
    """

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        transformed = self.is_transformed
        biased = self.is_biased
        width = config.output_width if transformed else config.dim
        self.transform = (
            nn.Linear(config.dim, width, bias=config.bias.head) if transformed else nn.Identity()
        )
        activation = self.options.activation
        if activation is not None and not transformed:
            raise ConfigurationError(
                f"model.heads.{self.key()}.activation: has no effect, since no map precedes the "
                "projection: remove the key"
            )
        self.act = ACTIVATIONS[activation or config.activation] if transformed else nn.Identity()
        self.norm = build_norm(config, width) if transformed else nn.Identity()
        self.projection = VocabularyProjection.of_states(
            config, width, tokens, vocab_size, bias=biased, wider=transformed
        )

    @property
    def is_transformed(self) -> bool:
        """Whether it maps states before the projection."""
        return True

    @property
    def is_biased(self) -> bool:
        """Whether its projection has a bias."""
        return True

    def logits(self, hidden: Tensor) -> Tensor:
        return self.projection(self.norm(self.act(self.transform(hidden))))
