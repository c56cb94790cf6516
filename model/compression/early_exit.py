"""Early exit: a classifier after each layer, and rows that leave at the first one that is sure enough.

A row that leaves is removed from the batch, so that later layers compute only the others. The
classifiers are the off-ramps of a head with `exits`, and after the last layer the head itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.heads._head import Head, RowHead
from clozeline.model.heads.classification import ClassificationHead
from clozeline.model.heads.regression import RegressionHead
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.parameters.flops import matrix_flops


class LayerCall(NamedTuple):
    """The inputs of one layer, besides the states."""

    layer: nn.Module
    plan: AttentionPlan
    rest: tuple[Any, ...]
    """further arguments, the same for all rows"""


class LayerInputs(NamedTuple):
    """A batch before its first layer."""

    states: Tensor
    """[B, T, dim], the output of the embeddings"""
    calls: list[LayerCall]
    """the layers in order; shared ones occur several times"""
    tensors: Mapping[str, Tensor]
    """the batch, after `add_host_shapes`"""
    tokens: Tensor
    """int64 [B], tokens of each row; a row without tokens is read as one"""


def find_body(model: Model, purpose: str) -> Any:
    """Return the module whose `layers` turn embeddings into the states that heads read; `purpose` is for messages.

    Raises:
        ConfigurationError: the family is not one stack of equal layers, or an adapter adds
            positions to its rows.
    """
    body = model.family.find_body(purpose)
    if model.positions_taken:
        raise ConfigurationError(
            f"{purpose}: expected rows of tokens alone, got {model.positions_taken} positions of "
            "the adapter "
            f"'{model.adapter_in_use}': deactivate it by use_adapter(None)"
        )
    return body


def record_layers(model: Model, tensors: Mapping[str, Tensor], purpose: str) -> LayerInputs:
    """Compute a batch up to the first layer, and return what each layer would be called with.

    Raises:
        BatchError: packed documents or padding on the left, or a position id is beyond the table.
    """
    tensors = add_host_shapes(tensors, model.position_limit, model.host_tensors)
    if unread := sorted({"document_ids", "left_padding"} & tensors.keys()):
        raise BatchError(
            f"{unread[0]}: {purpose} expected rows of one text each, padded on the right; got "
            "this tensor"
        )
    calls: list[LayerCall] = []
    states: list[Tensor] = []
    body = find_body(model, purpose)
    layers = body.layers
    body.layers = nn.ModuleList(_Recorder(layer, calls, states) for layer in layers)
    try:
        model.family(tensors)
    finally:
        body.layers = layers
    x = states[0]
    lengths = tensors["lengths"] if "lengths" in tensors else x.new_full((), x.shape[1]).long()
    return LayerInputs(x, calls, tensors, lengths.to(x.device).expand(len(x)).clamp(min=1))


class _Recorder(nn.Module):
    """A layer that returns its states as they are, and notes everything else that it was given."""

    def __init__(self, layer: nn.Module, calls: list[LayerCall], states: list[Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.calls = calls
        self.states = states
        self.position = getattr(layer, "position", None)  # the stack reads a layer's own bias

    def forward(self, x: Tensor, plan: AttentionPlan, *rest: object) -> Tensor:
        self.calls.append(LayerCall(self.layer, plan, rest))
        self.states.append(x)
        return x


def embedding_flops(model: Model, tokens: Tensor) -> Tensor:
    """Return the FLOPs [B] of the projection from the embeddings into the layers' width, float64."""
    body: Any = getattr(model.family, "stack", model.family)
    return tokens.double() * matrix_flops(body.embeddings.project)


def attention_flops(model: Model, layer: int, tokens: Tensor) -> Tensor:
    """Return the FLOPs [B] of a layer's scores and averages, without projections, for rows of `tokens` [B]; float64."""
    config = model.config
    tokens = tokens.double()
    wide = config.attention_heads * config.head_width
    chosen = config.position.disentangled
    visible = tokens
    if config.local is not None and config.is_local(layer):
        visible = tokens.clamp(max=2 * config.local.window + 1)
    visible = visible / 2 if model.family.architecture == "decoder" else visible
    relative = 0.0 if chosen is None else 2.0 * wide * chosen.rows * (chosen.terms - 1)
    return tokens * (4.0 * wide * visible + relative)


_PURPOSE: Final = "early exit"


@dataclass(frozen=True)
class Entropy:
    """Leave at the first classifier whose entropy -sum p ln p is below a threshold (DeeBERT, arXiv 2004.12993).

    Example (entropies 0.69 and 0.09 nats):
        >>> scores = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
        >>> Entropy(0.5).leave(scores, None, torch.zeros(2, dtype=torch.int64))[0].tolist()
        [False, True]
    """

    threshold: float
    """nats; 0: all layers read every row; above ln(classes): one layer does"""

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ConfigurationError(
                f"early exit: threshold: expected 0 nats or more, got {self.threshold}"
            )

    def check(self, head: Head) -> None:
        """Refuse a head that does not score classes."""
        if not isinstance(head, ClassificationHead):
            raise ConfigurationError(
                f"early exit: entropy needs scores of classes, got {head.key()}: take Patience"
            )

    def leave(self, scores: Tensor, before: Tensor | None, agreed: Tensor) -> tuple[Tensor, Tensor]:
        """Return which rows leave, [b] bool, by their scores [b, classes], and `agreed` [b] as it is."""
        logs = scores.float().log_softmax(-1)
        return -(logs.exp() * logs).sum(-1) < self.threshold, agreed


@dataclass(frozen=True)
class Patience:
    """Leave when consecutive classifiers have agreed often enough (PABEE, arXiv 2006.04152).

    The first classifier has nothing to agree with: t agreements need t + 1 classifiers. A
    disagreement sets the count back to 0.

    Example (classes 1, 1, 0, 0 by one row's classifiers):
        >>> rule, before, agreed, counts = Patience(2), None, torch.zeros(1, dtype=torch.int64), []
        >>> for scores in torch.eye(2)[[1, 1, 0, 0]].split(1):
        ...     (leaves, agreed), before = rule.leave(scores, before, agreed), scores
        ...     counts.append(agreed.item())
        >>> counts, leaves.item()
        ([0, 1, 0, 1], False)
    """

    agreements: int
    """t; 0: one layer reads every row; as many as there are layers, or more: all do"""
    tolerance: float | None = None
    """regression: predictions agree if they differ by less than this, in the unit of the target"""

    def __post_init__(self) -> None:
        if self.agreements < 0:
            raise ConfigurationError(
                f"early exit: agreements: expected 0 or more, got {self.agreements}"
            )

    def check(self, head: Head) -> None:
        """Refuse a regression without tolerance, and a classification with one."""
        if isinstance(head, RegressionHead) != (self.tolerance is not None):
            got = f"{self.tolerance} for {head.key()}"
            raise ConfigurationError(
                f"early exit: tolerance: expected one for regression alone, got {got}"
            )

    def leave(self, scores: Tensor, before: Tensor | None, agreed: Tensor) -> tuple[Tensor, Tensor]:
        """Return which rows leave, [b] bool, and their new number of agreements in a row, from `agreed` [b].

        `scores` and those of the classifier `before` it are [b, classes], or [b] of a regression.
        """
        if before is not None and self.tolerance is not None:
            agreed = ((scores - before).abs() < self.tolerance) * (agreed + 1)
        elif before is not None:
            agreed = (scores.argmax(-1) == before.argmax(-1)) * (agreed + 1)
        return agreed >= self.agreements, agreed


Rule: TypeAlias = Entropy | Patience


class Exits(NamedTuple):
    """The results of a batch, in the order of its rows."""

    scores: Tensor
    """[B, classes], or [B] of a regression, by the classifier at which the row left"""
    depths: Tensor
    """int64 [B], number of layers that have read the row"""
    flops: Tensor
    """float64 [B], of these layers and their classifiers, for the row's own tokens without
    padding"""
    dense: Tensor
    """float64 [B], of all layers and the last classifier"""


class EarlyExit(nn.Module):
    """A model whose rows leave early; except for rounding, their results do not depend on the other rows of a batch.

    In a stack with a final norm, off-ramps read the states after that norm, as the last classifier
    does.

    Args:
        model: one stack of layers: encoder, decoder or mobilebert.
        head: name of a head with `exits`.

    Raises:
        ConfigurationError: the head has no off-ramps, or the model has several stacks or an adapter
            with a prefix.
    """

    def __init__(self, model: Model, head: str) -> None:
        super().__init__()
        find_body(model, _PURPOSE)
        if head not in model.heads or model.heads[head].off_ramps is None:
            how = f"train one: model.heads.{head}.exits=joint, or after"
            raise ConfigurationError(
                f"early exit: expected a head {head} with a classifier after each layer: {how}"
            )
        self.model = model
        self.head = head

    @torch.no_grad()
    def forward(self, tensors: Mapping[str, Tensor], rule: Rule) -> Exits:
        """Return the scores, the depth and the FLOPs of each row.

        Raises:
            BatchError: packed documents or padding on the left, or a position id is beyond the
                table.
            ConfigurationError: the model is in training mode, or the rule does not fit the head.
        """
        if self.training:
            raise ConfigurationError(
                "early exit needs a model in evaluation mode, call eval(): dropout is random"
            )
        own = cast(RowHead, self.model.heads[self.head])
        rule.check(own)
        classifiers = [*cast("Sequence[RowHead]", own.off_ramps), own]
        x, calls, batch, tokens = inputs = record_layers(self.model, tensors, _PURPOSE)
        costs = [
            tokens * matrix_flops(call.layer) + attention_flops(self.model, layer, tokens)
            for layer, call in enumerate(calls)
        ]
        dense = torch.stack([embedding_flops(self.model, tokens), *costs]).sum(0) + matrix_flops(
            own.classifier
        )
        # x, rows, agreed, before: of the b rows that are left; depths, flops, spent, found: of all
        # B
        rows = torch.arange(len(x), device=x.device)
        agreed = torch.zeros_like(rows)
        before = None
        found = torch.empty(0)
        depths = rows.clone()
        spent = embedding_flops(self.model, tokens)
        flops = tokens.double()
        for depth, (call, classifier) in enumerate(zip(calls, classifiers, strict=True), start=1):
            x = call.layer(x, select_rows(call.plan, rows), *call.rest)
            scores = classifier.scores(self.model.family.apply_final_norm(x), batch)
            spent = spent + costs[depth - 1] + matrix_flops(classifier.classifier)
            # rows that leave write their results to where they came from
            leaves, agreed = rule.leave(scores, before, agreed)
            leaves = leaves | (depth == len(classifiers))
            found = scores.new_zeros(len(depths), *scores.shape[1:]) if before is None else found
            left = rows[leaves]
            stay = ~leaves
            found[left] = scores[leaves]
            depths[left] = depth
            flops[left] = spent[left]
            if not bool(stay.any()):
                break
            x = x[stay]
            rows = rows[stay]
            before = scores[stay]
            agreed = agreed[stay]
            read = {name: tensor for name, tensor in inputs.tensors.items() if name in _POOLED}
            batch = {
                name: tensor[rows.to(tensor.device)] if tensor.ndim else tensor
                for name, tensor in read.items()
            }
        return Exits(found, depths, flops, dense)


_POOLED: Final = frozenset({"lengths", "type_ids", "segment_ids"})
"""Tensors of a batch by which heads pool."""


def select_rows(plan: AttentionPlan, rows: Tensor) -> AttentionPlan:
    """Return the plan of some rows [b] of a batch; parts that are the same for all rows stay as they are."""

    def select(part: Tensor) -> Tensor:
        return part if len(part) in (1, len(rows)) else part[rows]

    mask = plan.mask
    relative = plan.relative
    if relative is not None:
        relative = relative._replace(rows=select(relative.rows), absolute=select(relative.absolute))
    rotation = (
        None if plan.rotation is None else (select(plan.rotation[0]), select(plan.rotation[1]))
    )
    return plan._replace(
        mask=None if mask is None else select(mask), rotation=rotation, relative=relative
    )
