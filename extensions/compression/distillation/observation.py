"""Observe a forward pass: states of layers, attention scores, and the logits of heads, by name.

| name | tensor |
|---|---|
| `state_L` | [B, T, dim], output of layer L (0: the embeddings); the last after the final norm |
| `attention_L` | [B, heads, T, T] fp32, scores of layer L before the softmax, 0 at unseen keys |
| `visible_L` | [B or 1, 1, T, T] bool, keys that each query of layer L sees |
| `queries_L`, `keys_L`, `values_L` | [B, T, width], concatenated heads of layer L |
| `logits_HEAD` | [N, classes], a row per label of the head, or per row of the batch |
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.head import ClassOptions, HeadOptions
from clozeline.model.heads import Head
from clozeline.model.heads._head import LabelHead
from clozeline.model.layers.activation import soft_cap
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.masks import BLOCKED, AttentionPlan, window_mask
from clozeline.model.layers.stack import record_outputs
from clozeline.model.loss import gather_labels

_ATTENTION: Final = frozenset({"attention", "visible", "queries", "keys", "values"})


@contextmanager
def observe(model: Model, wanted: Set[str]) -> Iterator[dict[str, Tensor]]:
    """Observe the forward pass inside the block; the dictionary is filled at its end.

    Args:
        model: model whose forward pass is observed.
        wanted: names of the tensors.
    """
    seen: dict[str, Tensor] = {}
    stack: Any = getattr(model.family, "stack", model.family)
    types = {name.rpartition("_")[0] for name in wanted}
    depth = model.config.layers

    with ExitStack() as records:
        states = list[Tensor]()

        if "state" in types:
            states = records.enter_context(
                record_outputs(stack.embeddings, *stack.layers, model.family)
            )
        # hooks see the inputs of the attention only inside the module, so its method is replaced
        layers = stack.layers if types & _ATTENTION else ()
        bodies = [
            next(part for part in layer.modules() if isinstance(part, Attention))
            for layer in layers
        ]
        mixed = records.enter_context(_record_calls("mix", bodies))
        logits = {
            name: records.enter_context(_record_calls("logits", [head]))
            for name, head in model.heads.items()
            if f"logits_{name}" in wanted
        }

        yield seen
    # heads read the output of the family, which replaces that of the last layer
    seen |= {
        f"state_{number}": state
        for number, state in enumerate([*states[:depth], *states[depth + 1 :]])
    }

    for number, (module, inputs, _) in enumerate(mixed, start=1):
        if any(f"{name}_{number}" in wanted for name in _ATTENTION):
            seen |= {
                f"{name}_{number}": tensor
                for name, tensor in _attention_tensors(module, *inputs).items()
            }
    # several calls if the head computes its logits in chunks
    for name, calls in logits.items():
        seen[f"logits_{name}"] = (
            torch.cat([output for *_, output in calls]) if len(calls) > 1 else calls[0][-1]
        )

    for name in seen.keys() - wanted:
        del seen[name]


def label_logits(head: Head, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return `logits_HEAD` [N, classes] from states [B, T, dim], without a loss."""
    if isinstance(head, LabelHead):
        return head.logits(gather_labels(hidden, tensors).states)
    return head.scores(hidden, tensors)


def has_label_logits(head: type[Head], options: HeadOptions) -> bool:
    """Return whether a head has one row of logits over classes for each of its labels."""
    if isinstance(options, ClassOptions):
        return not options.multi_label
    return issubclass(head, LabelHead) and head.forward is LabelHead.forward


def choose_head(name: str | None, candidates: Sequence[str], expected: str) -> str:
    """Return the named head, or the only candidate.

    Raises:
        ConfigurationError: there is no such head; the message says what was `expected`.
    """
    if name not in candidates if name else len(candidates) != 1:
        available = ", ".join(candidates) or "there is none"
        raise ConfigurationError(f"{expected}: {available}; got {name or 'none'}")
    return name or candidates[0]


@contextmanager
def _record_calls(
    method: str, modules: Sequence[object]
) -> Iterator[list[tuple[Any, tuple[Any, ...], Tensor]]]:
    """Record each call of a method of modules: the module, the inputs and the output."""
    calls: list[tuple[object, tuple[object, ...], Tensor]] = []

    def call(module: object, *inputs: object) -> Tensor:
        calls.append((module, inputs, getattr(type(module), method)(module, *inputs)))
        return calls[-1][-1]

    try:
        for module in modules:
            vars(module)[method] = partial(call, module)
        yield calls
    finally:
        for module in modules:
            vars(module).pop(method, None)


def _attention_tensors(
    module: Attention, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan
) -> dict[str, Tensor]:
    """Return scores, visible keys, and the concatenated heads of queries, keys and values."""
    # which keys each query sees, [B or 1, 1, T, T]
    columns = query.shape[2]
    mask = plan.mask
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
    # scores [B, heads, T, T]; a mask of scores also has position biases
    all_keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = soft_cap(query.float() @ all_keys.float().mT * module.scale, module.softcap)
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    parts = {"queries": query, "keys": key, "values": value}
    joined = {name: part.transpose(1, 2).flatten(2) for name, part in parts.items()}
    return {"attention": scores.masked_fill(~visible, 0.0), "visible": visible, **joined}
