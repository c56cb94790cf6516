"""Build a model from its configuration: a family, its heads and adapters, which can be merged."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from clozeline.columns import ROW_TEXT, ROW_WEIGHT, SECOND_VIEW, BatchField
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.adapters import Adapters
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import HeadInput, ModelFamily
from clozeline.model.flop_counts import FlopCounts
from clozeline.model.heads import Head, Heads
from clozeline.model.initialization import SkipInitialValues, initialize_parameters
from clozeline.model.layers.masks import real_tokens
from clozeline.model.layers.pooling import ScalarMix
from clozeline.model.layers.quantization import round_while_training
from clozeline.model.layers.stack import record_outputs
from clozeline.model.layers.vocabulary import table_rows
from clozeline.model.loss import Loss
from clozeline.model.parameters.sharding import UNSHARDED, Placement, full_shape
from clozeline.model.registries import FAMILIES, HEADS


class TokenCount:
    """Count real tokens, the divisor of auxiliary losses."""

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the number of real tokens in a batch."""
        return int(real_tokens(tensors).sum())


@dataclass(frozen=True)
class AuxiliaryLoss:
    """A loss next to those of the heads, from what modules return in the forward pass."""

    modules: Sequence[nn.Module]
    weight: float
    """factor of its mean"""
    compute: Callable[[Sequence[Any], Tensor], Loss]
    """returns it from the outputs of the modules, in the order of their calls, and weights [B, T],
    which are 1 at real tokens"""
    divisor: TokenCount = field(default_factory=TokenCount)


class Model(FlopCounts, nn.Module):
    """A family that computes hidden states, and heads that compute losses from them.

    The parameters of a new model are uninitialized: `build_model` draws them, or a checkpoint
    replaces them.
    """

    heads: Mapping[str, Head]

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        rows = table_rows(vocab_size, config.vocab_multiple)
        self.vocab_size = vocab_size
        with SkipInitialValues():
            self.family = FAMILIES.create(config.family, config, rows)
            self.use_heads(config, _build_heads(config, self.family, vocab_size))

        if config.quantization is not None:
            round_while_training(self, config.quantization)
        self.adapters = Adapters(self.family, vocab_size, config.adapter)

    @property
    def reads(self) -> Mapping[str, BatchField]:
        """Tensors that a training batch must hold, by name."""
        head_fields = [field for head in self.heads.values() for field in head.reads]
        return {field.name: field for field in (*self.family.reads, *head_fields, ROW_WEIGHT)}

    @property
    def reads_second_view(self) -> bool:
        """Whether a head compares two views of a row."""
        return any(head.reads_second_view() for head in self.heads.values())

    @property
    def divisors(self) -> Mapping[str, Any]:
        """The object that counts the divisor of each loss."""
        return {**self.heads, **{name: loss.divisor for name, loss in self.auxiliary.items()}}

    @property
    def loss_weights(self) -> dict[str, float]:
        """The factor of each mean loss."""
        auxiliary = {name: loss.weight for name, loss in self.auxiliary.items()}
        return {**self.config.head_weights, **auxiliary}

    @property
    def auxiliary(self) -> Mapping[str, AuxiliaryLoss]:
        """The losses next to those of the heads, by name; a model that adds one overrides this."""
        return {}

    @property
    def host_tensors(self) -> frozenset[str]:
        """Tensors that `add_host_shapes` must add to a batch before it moves to an accelerator."""
        return frozenset().union(*(head.host_tensors for head in self.heads.values()))

    @property
    def position_limit(self) -> int | None:
        """Positions of the table that a row can use next to the active adapter; None: no limit."""
        return (
            None
            if self.config.position.limit is None
            else self.config.position.limit - self.adapters.positions
        )

    def adopt_parts(self, model: "Model") -> None:
        """Take over the parts of a built model, under the same names; call it in `__init__`."""
        nn.Module.__init__(self)
        self.vocab_size = model.vocab_size
        self.family = model.family
        self.use_heads(model.config, cast(Heads, model.heads))
        self.adapters = model.adapters

    def use_heads(self, config: ModelConfig, heads: Heads) -> None:
        """Replace the heads with those of a configuration that has the same body."""
        self.config = config
        self.heads = cast("Mapping[str, Head]", heads)
        self.head_flops = [(head.flops_unit, head.flops()) for head in self.heads.values()]

    def forward(self, tensors: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Return the loss of each head, and the `auxiliary` ones.

        Raises:
            BatchError: a tensor that the family or a head reads is missing, a position id exceeds
                the table, rows are padded on a side that a head does not read, or a head cannot
                weight the labels.
        """
        if missing := self.reads.keys() - tensors.keys():
            raise BatchError(
                f"batch: needs {', '.join(sorted(missing))}, has {', '.join(sorted(tensors))}"
            )

        tensors = add_host_shapes(tensors, self.position_limit, self.host_tensors)
        self._check_padding(tensors)
        with ExitStack() as recorded:
            auxiliary = [
                (name, loss, recorded.enter_context(record_outputs(*loss.modules)))
                for name, loss in self.auxiliary.items()
            ]
            views, states = self._read(tensors)
        # the second view of a pair of rows; a row without one is read as one token
        second_states = {}

        if self.reads_second_view:
            inputs = {
                first.name: tensors[second.name]
                for first, second in zip(ROW_TEXT, SECOND_VIEW, strict=True)
            }
            second_states["hidden_b"] = self.family(
                {**inputs, "lengths": inputs["lengths"].clamp(min=1)}
            )
        # a key of a head may compute the loss from all layers
        losses = {}

        for name, head in self.heads.items():
            if not (keys := [*head.options.parts()]):
                losses[name] = head.loss(
                    views[name].hidden, {**views[name].tensors, **second_states}
                )
                continue
            earlier = [self.family.apply_final_norm(state) for state in states[1:-1]]
            losses[name] = keys[0].loss(head, [*earlier, states[-1]], tensors)

        for name, loss, outputs in auxiliary:
            losses[name] = loss.compute(outputs, real_tokens(tensors))
        return losses

    def logits(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the scores of each head: [B, T, classes], or [B, classes] for a head of rows."""
        return {name: self.heads[name].scores(*view) for name, view in self.views(tensors).items()}

    def views(self, tensors: Mapping[str, Tensor]) -> Mapping[str, HeadInput]:
        """Return the hidden states and tensors that each head reads, without a loss."""
        tensors = add_host_shapes(tensors, self.position_limit)
        self._check_padding(tensors)
        return self._read(tensors)[0]

    def _read(
        self, tensors: Mapping[str, Tensor]
    ) -> tuple[Mapping[str, HeadInput], Sequence[Tensor]]:
        """Return the view of each head, and the states of all layers if a head needs them.

        A head reads the last layer, or its own mix of all layers.
        """
        if all(head.mix is None and not any(head.options.parts()) for head in self.heads.values()):
            return self.family.views(tensors, self.heads), ()
        states = self.family.layer_states(tensors)
        views = {
            name: HeadInput(states[-1] if head.mix is None else head.mix(states), tensors)
            for name, head in self.heads.items()
        }
        return views, states

    def _check_padding(self, tensors: Mapping[str, Tensor]) -> None:
        if "left_padding" not in tensors:
            return
        if not self.family.left_padding:
            raise BatchError(
                f"left_padding: the family {self.config.family} reads rows padded on the right only"
            )
        if names := [name for name, head in self.heads.items() if not head.left_padding]:
            why = (
                f"the head {names[0]} reads rows padded on the right only, got padding on the left"
            )
            raise BatchError(f"left_padding: {why}")

    @property
    def parameters_by_part(self) -> dict[str, int]:
        """Parameters of the token table, each stack and each head; tied ones count once.

        What a training adds to the model, such as projections of a student, does not count.
        """
        counts = Counter[str]()
        for name, parameter in self.named_parameters():
            group, part, *_ = name.split(".")
            if group in ("family", "heads", "adapters"):
                counts[part] += full_shape(parameter).numel()
        return counts

    def num_parameters(self) -> int:
        """Return the number of parameters; tied parameters count once."""
        return sum(self.parameters_by_part.values())


def _build_heads(config: ModelConfig, family: ModelFamily, vocab_size: int) -> Heads:
    """Build the heads of a configuration; tied heads share the token table of the family."""
    classes = {name: HEADS.load_class(name) for name in config.heads}
    # a head of the decoder has its sizes
    sizes = {name: family.sizes(head_class.target) for name, head_class in classes.items()}
    head_configs = {
        name: config if size is family.config else replace(size, heads=config.heads)
        for name, size in sizes.items()
    }
    heads = {
        name: HEADS.create(name, head_configs[name], family.tokens, vocab_size) for name in classes
    }
    # options that add modules to a head: a mix of layers, and those of extensions
    for name, head in heads.items():
        if config.heads[name].scalar_mix:
            if not family.layered:
                expected = f"expected a family of one stack, got {config.family}; remove it"
                raise ConfigurationError(f"model.heads.{name}.scalar_mix: {expected}")
            head.mix = ScalarMix(config.layers + 1)

        for key in head.options.parts():
            copy = partial(HEADS.create, name, head_configs[name], family.tokens, vocab_size)
            key.extend(head, family, copy)

    return Heads(heads)


def build_model(
    config: ModelConfig,
    vocab_size: int,
    special_ids: Mapping[str, int],
    token_bytes: Sequence[bytes] | None = None,
    *,
    seed: int | None = None,
    placement: Placement = UNSHARDED,
) -> Model:
    """Build and initialize a model.

    Args:
        config: sizes and parts.
        vocab_size: number of ids of the tokenizer, special tokens included.
        special_ids: id of each special token by name.
        token_bytes: UTF-8 bytes of each token, for a family that reads characters.
        seed: seed of the initial weights; default: that of torch's generator.
        placement: how parameters are distributed over ranks.

    Raises:
        ConfigurationError: a special id is outside the vocabulary, the family or a head is
            unknown, or token bytes are missing or do not match the vocabulary.
    """
    outside = {name: number for name, number in special_ids.items() if not 0 <= number < vocab_size}
    if outside or vocab_size < 1:
        raise ConfigurationError(
            f"vocabulary of {vocab_size} ids: expected every special id below it, got {outside}; "
            "the tokenizer and the shards do not belong together"
        )
    # build, initialize, then let adapters start from the initialized weights
    with placement.building():
        model = Model(config, vocab_size)
    seed = torch.initial_seed() if seed is None else seed
    initialize_parameters(model, config, seed, placement)
    for name in model.adapters:
        model.adapters.find(name).initialize_from(model.family, vocab_size, seed, placement)
    if model.family.reads_characters:
        if token_bytes is None or len(token_bytes) != vocab_size:
            raise ConfigurationError(
                f"model.family {config.family} reads tokens as characters: expected the bytes of "
                f"{vocab_size} tokens, got {'none' if token_bytes is None else len(token_bytes)}; "
                "pass those of the tokenizer"
            )
        model.family.set_token_bytes(token_bytes, special_ids)

    return model


def freeze_base(model: Model, trained: Collection[str] = ()) -> None:
    """Train only the active adapter and the parameters in `trained`, such as those of a new head.

    Raises:
        ConfigurationError: no adapter is active.
    """
    if model.adapters.active is None:
        raise ConfigurationError(
            "no adapter is active, so nothing would train: call `model.adapters.use` first"
        )
    key = f"adapters.{model.adapters.active}."
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(key) or name in trained)
