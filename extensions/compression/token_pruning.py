"""Token pruning: later layers read fewer and fewer tokens of a row, those with most attention.

The rule is PoWER-BERT's schedule (arXiv 2001.08950): tokens leave between the attention and the
feed-forward block of a layer. Heads read a state at every position: a dropped token keeps its last
one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.early_exit import (
    attention_flops,
    embedding_flops,
    find_body,
    record_layers,
)
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.model.build import Model
from clozeline.model.families import HeadInput
from clozeline.model.layers.attention import Attention, attention_scores
from clozeline.model.layers.layer import Layer
from clozeline.model.layers.masks import BLOCKED, AttentionPlan
from clozeline.model.layers.stack import record_outputs
from clozeline.model.parameters.flops import matrix_flops

_PURPOSE: Final = "token pruning"


class PrunedBatch(NamedTuple):
    """The results of a batch."""

    hidden: Tensor
    """[B, T, dim], at dropped tokens their last states"""
    kept: Tensor
    """int64 [B, L], number of tokens that each layer keeps"""
    flops: Tensor
    """float64 [B]: of the layers for the tokens that they read, and of choosing tokens; without
    heads"""


class TokenPruning(Model):
    """A built model that drops tokens; except for rounding, rows of a batch are independent.

    Calling it returns losses, so a model can be trained further with its schedule: gradients go
    through the tokens that stay, not through the choice.

    Args:
        model: model of the family encoder with standard layers; its parts become those of this one.
        rule: which tokens to keep.

    Raises:
        ConfigurationError: the model has other layers, an adapter with a prefix, or a head that
            reads a mix of all layers or two views of a row; or the rule has another depth than the
            model, or numbers out of range.
    """

    def __init__(self, model: Model, rule: TopTokens) -> None:
        self.adopt_parts(model)
        self.train(model.training)

        # in a decoder, later layers would miss the dropped tokens in the cache
        body = find_body(model, _PURPOSE)
        problems = {
            f"model.family={model.config.family}": model.family.architecture != "encoder"
            or any(type(layer) is not Layer for layer in body.layers),
            "model.position.disentangled": model.config.position.disentangled is not None,
            "model.parallel": model.config.parallel,
            "an active prefix adapter": any(
                isinstance(module, Attention) and module.prefix is not None
                for module in body.modules()
            ),
        }
        if causes := [name for name, holds in problems.items() if holds]:
            raise ConfigurationError(
                "token pruning: expected an encoder whose layers apply attention to the tokens of "
                f"a row, then the feed-forward block, got {causes[0]}"
            )

        for name, head in model.heads.items():
            if head.mix is not None or any(head.options.parts()) or head.reads_second_view():
                raise ConfigurationError(
                    "token pruning: expected heads that read the last states of one row, got "
                    f"{name}, which reads all layers (scalar_mix, exits) or a second view"
                )

        rule.check(self.config.layers)
        self.rule = rule

    def _read(
        self, tensors: Mapping[str, Tensor]
    ) -> tuple[Mapping[str, HeadInput], Sequence[Tensor]]:
        """Return what each head reads: the states of a batch after tokens were dropped."""
        hidden = self.prune(tensors).hidden
        return {name: HeadInput(hidden, tensors) for name in self.heads}, ()

    def prune(self, tensors: Mapping[str, Tensor]) -> PrunedBatch:
        """Return the states of a batch, the number of tokens kept, and the FLOPs.

        Raises:
            BatchError: documents are packed, rows are padded on the left, or a position id is
                outside the table.
        """
        x, calls, _, lengths = record_layers(self, tensors, _PURPOSE)
        # K slots hold the remaining tokens: columns [B, K] are their positions, alive [B, K] is
        # False at padding
        columns = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        alive = columns < lengths[:, None]
        # last states [B, T, dim] of all positions, once tokens have been dropped
        last_states: Tensor | None = None
        tokens = lengths
        kept = []
        flops = embedding_flops(self, lengths)

        for number, call in enumerate(calls):
            layer = cast("Layer", call.layer)
            attending = attention_flops(self, number, tokens)
            body = cast("Attention", layer.attention.body)
            plan = call.plan if last_states is None else select_tokens(call.plan, columns, alive)
            flops = flops + tokens * matrix_flops(layer.attention) + attending
            with record_outputs(body.query) as queries, record_outputs(body.key) as keys:
                x = layer.attention(x, plan)
            # the attention that each token receives decides which tokens stay
            stays = alive

            if self.rule.prunes(number):
                flops = flops + attending / 2  # the scores, a second time
                heads = queries[0].shape[-1] // body.head_dim

                with torch.no_grad():
                    received = sum_attention(body, queries[0], keys[0], plan, alive) / (
                        heads * tokens[:, None]
                    )

                received = received.masked_fill(columns == 0, torch.inf).masked_fill(
                    ~alive, -torch.inf
                )

                stays = self.rule.keep(number, received, lengths)

            if not torch.equal(stays, alive):
                last_states = _store(last_states, x, columns, alive)
                # move the tokens that stay to the first slots, in the order of the row
                tokens = stays.sum(1)
                slots = (~stays).int().argsort(dim=1, stable=True)[:, : int(tokens.max())]
                x = x.gather(1, slots[..., None].expand(-1, -1, x.shape[-1]))
                columns = columns.gather(1, slots)
                alive = stays.gather(1, slots)
            x = layer.feed_forward(x)
            kept.append(tokens)
            flops = flops + tokens * matrix_flops(layer.feed_forward)

        hidden = x if last_states is None else _store(last_states, x, columns, alive)
        return PrunedBatch(self.family.apply_final_norm(hidden), torch.stack(kept, dim=1), flops)


def sum_attention(
    body: Attention, query: Tensor, key: Tensor, plan: AttentionPlan, alive: Tensor
) -> Tensor:
    """Return the attention that each token receives, over heads and queries, fp32 or fp64 [B, K].

    Args:
        body: the attention module, for its scale, norms of queries and keys, and head width.
        query: [B, K, heads x head_dim], before norm and rotation.
        key: [B, K, kv_heads x head_dim], before norm and rotation.
        plan: plan of the attention.
        alive: [B, K] bool; padding neither attends nor is attended to.
    """
    queries = body.split_heads(query, body.query_norm, plan)
    keys = body.split_heads(key, body.key_norm, plan)
    scores = attention_scores(queries, keys, plan, body.scale, body.softcap)  # [B, heads, K, K]
    probabilities = scores.softmax(-1) * alive[:, None, :, None]
    return probabilities.sum((1, 2))


def select_tokens(plan: AttentionPlan, columns: Tensor, alive: Tensor) -> AttentionPlan:
    """Return the plan of some positions [B, K] of each row; slots that are not alive are hidden."""

    def select(part: Tensor, dim: int) -> Tensor:
        """Take the columns along a dimension of [B or 1, n, T or 1, m]."""
        sizes = (1, *(-1 if axis == dim else 1 for axis in (2, 3)))
        index = columns.unflatten(1, sizes)  # type: ignore[no-untyped-call]
        part = part.expand(len(columns), -1, -1, -1)
        return part.gather(
            dim,
            index.expand(
                *(index.shape[axis] if axis == dim else part.shape[axis] for axis in range(4))
            ),
        )

    mask = plan.mask
    rotation = plan.rotation
    visible = alive[:, None, None]
    if mask is not None:
        mask = select(mask, 3)
        mask = select(mask, 2) if mask.shape[2] > 1 else mask

    if mask is not None and mask.is_floating_point():
        mask = mask.masked_fill(~visible, BLOCKED)
    elif not bool(alive.all()) or mask is not None:
        # every slot sees itself: a slot that sees nothing would become NaN
        diagonal = torch.eye(alive.shape[1], dtype=torch.bool, device=alive.device)
        mask = (visible if mask is None else mask & visible) | diagonal

    if rotation is not None:
        rotation = (select(rotation[0], 2), select(rotation[1], 2))
    return plan._replace(mask=mask, rotation=rotation)


def _store(last_states: Tensor | None, x: Tensor, columns: Tensor, alive: Tensor) -> Tensor:
    """Write the living slots to their columns of the last states [B, T, dim]; return these."""
    if last_states is None:
        return x
    index = columns[..., None].expand(-1, -1, x.shape[-1])
    return last_states.scatter(
        1, index, torch.where(alive[..., None], x, last_states.gather(1, index))
    )
