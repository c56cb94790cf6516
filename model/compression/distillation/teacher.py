"""A teacher in memory: a frozen model whose tensors are added to each batch."""

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from clozeline.model.build import Model
from clozeline.model.compression.distillation.observation import label_logits, observe
from clozeline.model.compression.distillation.student import OF_TEACHER
from clozeline.model.flop_counts import Documents
from clozeline.model.heads import Heads

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Teacher:
    """A model without dropout and gradients; not a part of what ZeRO wraps, so every rank holds all of it.

    Args:
        model: with its trained weights.
        wanted: tensors to compute, as `observation` names them.
    """

    def __init__(self, model: Model, wanted: Set[str]) -> None:
        self.model = model.eval().requires_grad_(False)
        self.wanted = frozenset(wanted)
        # heads that nothing compares would need labels; the others need not compute a loss
        read = {name: head for name, head in model.heads.items() if f"logits_{name}" in wanted}
        self._reads_heads = bool(read)
        if read:
            model.use_heads(replace(model.config, heads={name: model.config.heads[name] for name in read}), Heads(read))
        for head in read.values():
            vars(head)["loss"] = partial(label_logits, head)

    def to(self, device: torch.device, precision: str) -> Self:
        """Move it to a device, in the type of the student's weights."""
        self.model.to(device, _TYPES[precision])
        return self

    def flops(self, tokens: int, target_tokens: int, labels: float | None, documents: Documents | None) -> float:
        """Return the FLOPs of a forward pass of one row; see `Model.flops`."""
        if self._reads_heads:
            return self.model.forward_flops(tokens, target_tokens, labels, documents)
        alone = {(tokens, target_tokens): 1.0} if documents is None else documents
        return sum(count * self.model.family.flops(*lengths) for lengths, count in alone.items())

    def __call__(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the wanted tensors of a batch, each under its name after `teacher_`."""
        with torch.no_grad(), observe(self.model, self.wanted) as seen:
            if self._reads_heads:
                self.model(tensors)
            else:
                self.model.family(tensors)
        return {OF_TEACHER + name: tensor for name, tensor in seen.items()}
