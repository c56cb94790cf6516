"""Observe a forward pass: states of layers, scores of attention, and the logits of heads, by name.

| name | tensor |
|---|---|
| `state_L` | [B, T, dim], output of layer L, of the embeddings for 0; the last one after the final norm |
| `attention_L` | [B, heads, T, T] fp32, scores of layer L before the softmax, 0 at keys that a query does not see |
| `visible_L` | [B or 1, 1, T, T] bool, keys that each query of layer L sees |
| `queries_L`, `keys_L`, `values_L` | [B, T, width], all heads of layer L side by side |
| `logits_HEAD` | [N, classes], one row per label of the head (per row of the batch, if it predicts rows) |
"""

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from clozeline.model.build import Model
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.heads import Head
from clozeline.model.heads._label_head import LabelHead
from clozeline.model.heads.classification import Classification
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.masks import BLOCKED, AttentionPlan, window_mask
from clozeline.model.layers.stack import record_outputs
from clozeline.model.loss import IGNORED, gather_labels

_ATTENTION: Final = frozenset({"attention", "visible", "queries", "keys", "values"})


@contextmanager
def observe(model: Model, wanted: Set[str]) -> Iterator[dict[str, Tensor]]:
    """Observe the forward pass inside the block; the dictionary is filled at its end.

    Args:
        model: whose forward pass it is.
        wanted: names of the tensors.
    """
    seen: dict[str, Tensor] = {}
    kinds = {name.rpartition("_")[0] for name in wanted}
    with ExitStack() as patches:
        states = patches.enter_context(_record_states(model)) if "state" in kinds else []
        mixed = patches.enter_context(_record_attention(model)) if kinds & _ATTENTION else []
        logits = {
            name: patches.enter_context(_record_logits(head))
            for name, head in model.heads.items()
            if f"logits_{name}" in wanted
        }
        yield seen
    # by name
    for number, state in enumerate(states):
        seen[f"state_{number}"] = state
    for number, call in enumerate(mixed, start=1):
        if any(f"{kind}_{number}" in wanted for kind in _ATTENTION):
            seen |= {f"{kind}_{number}": tensor for kind, tensor in _attention_tensors(*call).items()}
    seen |= {f"logits_{name}": torch.cat(parts) if len(parts) > 1 else parts[0] for name, parts in logits.items()}
    for name in seen.keys() - wanted:
        del seen[name]


def label_weights(head: Head, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the weight of each row of `logits_HEAD`, fp32 [N], as the head's own loss weighs it; 0: no loss."""
    weighted = head._weigh(tensors)
    if isinstance(head, Classification):
        return ((weighted["label"] != IGNORED) & (weighted["row_weight"] != 0)).float()
    labels = gather_labels(weighted.get("decoder_input_ids", weighted["input_ids"])[..., None], weighted)
    counted = (labels.ids != IGNORED).float()
    return counted if labels.weights is None else counted * labels.weights


def label_logits(head: Head, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return `logits_HEAD` [N, classes] from states [B, T, dim], without a loss."""
    if isinstance(head, LabelHead):
        return head.logits(gather_labels(hidden, tensors).states)
    return head.scores(hidden, tensors)


def has_label_logits(head: type[Head], options: HeadConfig) -> bool:
    """Return whether a head has one row of logits over classes for each of its labels."""
    if issubclass(head, Classification):
        return not options.multi_label
    return issubclass(head, LabelHead) and head.forward is LabelHead.forward


@contextmanager
def _record_states(model: Model) -> Iterator[list[Tensor]]:
    """Record the outputs of the embeddings and of each call of a layer; the last is what heads read."""
    stack: Any = getattr(model.family, "stack", model.family)
    with record_outputs(stack.embeddings, *stack.layers) as states:

        def replace_last(_: nn.Module, __: Any, output: Tensor) -> None:
            states[-1] = output

        hook = model.family.register_forward_hook(replace_last)
        try:
            yield states
        finally:
            hook.remove()


@contextmanager
def _record_attention(model: Model) -> Iterator[list[tuple[Attention, Tensor, Tensor, Tensor, AttentionPlan]]]:
    """Record queries, keys, values [B, heads, T, head_dim] and the plan of each call of a layer's attention."""
    calls: list[tuple[Attention, Tensor, Tensor, Tensor, AttentionPlan]] = []
    stack: Any = getattr(model.family, "stack", model.family)

    def mix(module: Attention, *inputs: Any) -> Tensor:
        calls.append((module, *inputs))
        return type(module).mix(module, *inputs)

    modules = [next(part for part in layer.modules() if isinstance(part, Attention)) for layer in stack.layers]
    with _replacing("mix", {module: partial(mix, module) for module in modules}):
        yield calls


@contextmanager
def _record_logits(head: Head) -> Iterator[list[Tensor]]:
    """Record the outputs of a head's `logits`, in parts if it computes them in chunks."""
    parts: list[Tensor] = []

    def logits(hidden: Tensor) -> Tensor:
        parts.append(type(head).logits(head, hidden))
        return parts[-1]

    with _replacing("logits", {head: logits}):
        yield parts


@contextmanager
def _replacing(method: str, calls: Mapping[Any, Callable[..., Tensor]]) -> Iterator[None]:
    """Call functions in the place of a method of modules."""
    try:
        for module, call in calls.items():
            vars(module)[method] = call
        yield
    finally:
        for module in calls:
            vars(module).pop(method, None)


def _attention_tensors(
    module: Attention, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan
) -> dict[str, Tensor]:
    """Return scores, visible keys, and the heads of queries, keys and values side by side."""
    # which keys each query sees, [B or 1, 1, T, T]
    columns, mask = query.shape[2], plan.mask
    visible = torch.ones(1, 1, columns, columns, dtype=torch.bool, device=query.device)
    if mask is not None:
        visible = visible & (mask > BLOCKED / 2 if mask.is_floating_point() else mask)
    if plan.documents is not None:
        visible = visible & plan.documents.mask()
        if plan.window is not None:
            positions = torch.arange(columns, device=query.device)[None]
            visible = visible & window_mask(positions, positions, plan.window)
    if plan.causal:
        visible = visible & visible.new_ones(columns, columns).tril()
    # scores [B, heads, T, T]; a mask of scores holds position biases, too
    wide = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query.float() @ wide.float().mT * module.scale
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    parts = {"queries": query, "keys": key, "values": value}
    joined = {name: part.transpose(1, 2).flatten(2) for name, part in parts.items()}
    return {"attention": scores.masked_fill(~visible, 0.0), "visible": visible, **joined}
