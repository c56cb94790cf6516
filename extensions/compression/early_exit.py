"""Early exit: a classifier after each layer, and rows that leave at the first confident one.

A row that leaves is removed from the batch, so later layers compute only the others. The
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
from clozeline.model.configuration.head import ClassOptions
from clozeline.model.heads._head import Head, RowHead
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.parameters.flops import matrix_flops


class LayerCall(NamedTuple):
    """The inputs of one layer, in addition to the states."""

    layer: nn.Module
    plan: AttentionPlan
    rest: tuple[Any, ...]
    """further arguments, the same for all rows"""


class LayerInputs(NamedTuple):
    """A batch before its first layer."""

    states: Tensor
    """[B, T, dim], the output of the embeddings"""
    calls: list[LayerCall]
    """the layers in order; a shared layer occurs several times"""
    tensors: Mapping[str, Tensor]
    """the batch, after `add_host_shapes`"""
    tokens: Tensor
    """int64 [B], number of tokens of each row; a row without tokens is read as one token"""


def find_body(model: Model, purpose: str) -> Any:
    """Return the module whose `layers` turn embeddings into the states that heads read.

    `purpose` starts the message of an error.

    Raises:
        ConfigurationError: the family is not a single stack of equal layers, or an adapter adds
            positions to its rows.
    """
    body = model.family.find_body(purpose)
    if model.adapters.positions:
        raise ConfigurationError(
            f"{purpose}: expected rows of tokens only, got {model.adapters.positions} positions of "
            f"the adapter '{model.adapters.active}': deactivate it with model.adapters.use(None)"
        )
    return body


def record_layers(model: Model, tensors: Mapping[str, Tensor], purpose: str) -> LayerInputs:
    """Compute a batch up to the first layer, and return the inputs of each layer.

    Raises:
        BatchError: documents are packed, rows are padded on the left, or a position id is outside
            the table.
    """
    tensors = add_host_shapes(tensors, model.position_limit, model.host_tensors)
    if unsupported := sorted({"document_ids", "left_padding"} & tensors.keys()):
        raise BatchError(
            f"{unsupported[0]}: {purpose} needs rows of one text each, padded on the right, "
            "without this tensor"
        )

    # run the family once with layers that only record their inputs
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
    """A layer that returns its input, and records everything else that it receives."""

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
    """Return the FLOPs [B] of the projection from the embeddings to the layers' width, float64."""
    body: Any = getattr(model.family, "stack", model.family)
    return tokens.double() * matrix_flops(body.embeddings.project)


def attention_flops(model: Model, layer: int, tokens: Tensor) -> Tensor:
    """Return the FLOPs [B] of a layer's scores and averages, float64, for rows of `tokens` [B].

    The projections are not included.
    """
    config = model.config
    tokens = tokens.double()
    attention_width = config.attention_heads * config.head_width
    chosen = config.position.disentangled
    visible = tokens
    if config.local is not None and config.is_local(layer):
        visible = tokens.clamp(max=2 * config.local.window + 1)
    visible = visible / 2 if model.family.architecture == "decoder" else visible
    relative = 0.0 if chosen is None else 2.0 * attention_width * chosen.rows * (chosen.terms - 1)
    return tokens * (4.0 * attention_width * visible + relative)


_PURPOSE: Final = "early exit"


@dataclass(frozen=True)
class Entropy:
    """Leave at the first classifier with an entropy -sum p ln p below a threshold (DeeBERT).

    See arXiv 2004.12993.

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
        """Raise ConfigurationError for a head that does not score classes."""
        if not isinstance(head.options, ClassOptions):
            raise ConfigurationError(
                f"early exit: entropy needs scores of classes, got {head.key()}: use Patience"
            )

    def leave(self, scores: Tensor, before: Tensor | None, agreed: Tensor) -> tuple[Tensor, Tensor]:
        """Return which rows leave, [b] bool, by scores [b, classes], and `agreed` unchanged."""
        logs = scores.float().log_softmax(-1)
        return -(logs.exp() * logs).sum(-1) < self.threshold, agreed


@dataclass(frozen=True)
class Patience:
    """Leave when consecutive classifiers have agreed often enough (PABEE, arXiv 2006.04152).

    The first classifier has nothing to agree with: t agreements need t + 1 classifiers. A
    disagreement resets the count to 0.

    Example (the classifiers of one row say class 1, 1, 0, 0):
        >>> rule, before, agreed, counts = Patience(2), None, torch.zeros(1, dtype=torch.int64), []
        >>> for scores in torch.eye(2)[[1, 1, 0, 0]].split(1):
        ...     (leaves, agreed), before = rule.leave(scores, before, agreed), scores
        ...     counts.append(agreed.item())
        >>> counts, leaves.item()
        ([0, 1, 0, 1], False)
    """

    agreements: int
    """t; 0: one layer reads every row; the number of layers or more: all do"""
    tolerance: float | None = None
    """regression: predictions agree if they differ by less than this, in the unit of the target"""

    def __post_init__(self) -> None:
        if self.agreements < 0:
            raise ConfigurationError(
                f"early exit: agreements: expected 0 or more, got {self.agreements}"
            )

    def check(self, head: Head) -> None:
        """Raise ConfigurationError for a regression without tolerance, or another head with one."""
        if isinstance(head.options, ClassOptions) == (self.tolerance is not None):
            got = f"{self.tolerance} for {head.key()}"
            raise ConfigurationError(
                f"early exit: tolerance: set it for regression, and only then; got {got}"
            )

    def leave(self, scores: Tensor, before: Tensor | None, agreed: Tensor) -> tuple[Tensor, Tensor]:
        """Return which rows leave, [b] bool, and their new number of consecutive agreements.

        `agreed` [b] is the previous number. `scores`, and those of the classifier `before`, are
        [b, classes], or [b] for a regression.
        """
        if before is not None and self.tolerance is not None:
            agreed = ((scores - before).abs() < self.tolerance) * (agreed + 1)
        elif before is not None:
            agreed = (scores.argmax(-1) == before.argmax(-1)) * (agreed + 1)
        return agreed >= self.agreements, agreed


ExitRule: TypeAlias = Entropy | Patience


class ExitResults(NamedTuple):
    """The results of a batch, in the order of its rows."""

    scores: Tensor
    """[B, classes], or [B] for a regression, from the classifier at which the row left"""
    depths: Tensor
    """int64 [B], number of layers that have read the row"""
    flops: Tensor
    """float64 [B], of these layers and their classifiers, for the row's tokens without padding"""
    dense: Tensor
    """float64 [B], of all layers and the last classifier"""


class EarlyExit(nn.Module):
    """A model whose rows leave early; except for rounding, rows of a batch are independent.

    In a stack with a final norm, off-ramps read the states after that norm, as the last classifier
    does.

    Args:
        model: model of one stack: encoder, decoder or mobilebert.
        head: name of a head with `exits`.

    Raises:
        ConfigurationError: the head has no off-ramps, the model has several stacks, or its adapter
            adds positions.
    """

    def __init__(self, model: Model, head: str) -> None:
        super().__init__()
        find_body(model, _PURPOSE)
        if head not in model.heads or not hasattr(model.heads[head], "off_ramps"):
            raise ConfigurationError(
                f"early exit: the model has no head {head} with a classifier after each layer: "
                f"train it with model.heads.{head}.exits=joint, or after"
            )
        self.model = model
        self.head = head

    @torch.no_grad()
    def forward(self, tensors: Mapping[str, Tensor], rule: ExitRule) -> ExitResults:
        """Return the scores, the depth and the FLOPs of each row.

        Raises:
            BatchError: documents are packed, rows are padded on the left, or a position id is
                outside the table.
            ConfigurationError: the model is in training mode, or the rule does not fit the head.
        """
        if self.training:
            raise ConfigurationError(
                "early exit needs a model in evaluation mode: call eval(), because dropout is "
                "random"
            )

        last_head = cast(RowHead, self.model.heads[self.head])
        rule.check(last_head)
        classifiers = [*cast("Sequence[RowHead]", last_head.off_ramps), last_head]

        # FLOPs of each layer and of the entire model, per row
        x, calls, batch, tokens = inputs = record_layers(self.model, tensors, _PURPOSE)
        costs = [
            tokens * matrix_flops(call.layer) + attention_flops(self.model, layer, tokens)
            for layer, call in enumerate(calls)
        ]
        dense = torch.stack([embedding_flops(self.model, tokens), *costs]).sum(0)
        dense = dense + matrix_flops(last_head.classifier)

        # x, rows, agreed, before: of the b remaining rows; depths, flops, flops_so_far, results: of
        # all B rows
        rows = torch.arange(len(x), device=x.device)
        agreed = torch.zeros_like(rows)
        before = None
        results = torch.empty(0)
        depths = rows.clone()
        flops_so_far = embedding_flops(self.model, tokens)
        flops = tokens.double()

        for depth, (call, classifier) in enumerate(zip(calls, classifiers, strict=True), start=1):
            x = call.layer(x, select_rows(call.plan, rows), *call.rest)
            scores = classifier.scores(self.model.family.apply_final_norm(x), batch)
            flops_so_far = flops_so_far + costs[depth - 1] + matrix_flops(classifier.classifier)
            # rows that leave write their results to their original index
            leaves, agreed = rule.leave(scores, before, agreed)
            leaves = leaves | (depth == len(classifiers))
            if before is None:
                results = scores.new_zeros(len(depths), *scores.shape[1:])
            leaving = rows[leaves]
            stay = ~leaves
            results[leaving] = scores[leaves]
            depths[leaving] = depth
            flops[leaving] = flops_so_far[leaving]
            if not bool(stay.any()):
                break
            # the other rows go on to the next layer
            x = x[stay]
            rows = rows[stay]
            before = scores[stay]
            agreed = agreed[stay]
            pooled = {name: tensor for name, tensor in inputs.tensors.items() if name in _POOLED}
            batch = {
                name: tensor[rows.to(tensor.device)] if tensor.ndim else tensor
                for name, tensor in pooled.items()
            }

        return ExitResults(results, depths, flops, dense)


_POOLED: Final = frozenset({"lengths", "type_ids", "segment_ids"})
"""Tensors of a batch that heads read when they pool."""


def select_rows(plan: AttentionPlan, rows: Tensor) -> AttentionPlan:
    """Return the plan of some rows [b] of a batch; parts that all rows share stay unchanged."""

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
