"""Repeat one layer, with a signal for each step, and let each token decide when it stops.

Universal Transformer (arXiv 1807.03819) with adaptive computation time (ACT, arXiv 1603.08983).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clozeline.model.configuration.layer import UniversalConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.position import frequencies
from clozeline.model.parameters.initial_values import Draw, constant


class Universal(nn.Module):
    """Repeat a layer; each step adds a signal, and with halting a token averages its steps.

    Before step n, the wave of n and the sinusoidal positions, if the model has them, are added. A
    halting unit maps the states to the probability h_n. A token takes N steps: the first N with
    h_1 + ... + h_N >= 1 - epsilon, or all. Step n < N has weight h_n, and step N the remainder R =
    1 - (h_1 + ... + h_{N-1}), so that the weights sum to 1. The result is the weighted sum of
    states, as in ACT. A token that has stopped keeps the state of step N, which others read.
    """

    def __init__(self, config: ModelConfig, options: UniversalConfig) -> None:
        super().__init__()
        self.epsilon = options.epsilon
        self.dim = config.dim
        self.halting = None if options.epsilon is None else nn.Linear(config.dim, 1)

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return a bias of 1, as in the paper's code: tokens first stop after one or two steps."""
        return (
            {} if self.halting is None else {"halting.weight": usual, "halting.bias": constant(1.0)}
        )

    def forward(
        self,
        x: Tensor,
        apply: Callable[[int, Tensor], Tensor],
        steps: int,
        positions: Tensor | None = None,
        real: Tensor | None = None,
        *,
        may_end: bool = True,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the states [B, T, dim]; with halting, also remainder and steps per token [B, T].

        Args:
            x: output of the embeddings [B, T, dim], which have the positions of the first step.
            apply: the layer, given the step from 0 and its input.
            steps: maximum number of steps of a token.
            positions: vectors [B or 1, T, dim] that each further step adds.
            real: bool [B, T], False at padding; None: no padding.
            may_end: skip the steps after every token has stopped. Later tokens of a cache may need
                them.
        """
        waves = frequencies(self.dim + self.dim % 2, 10000.0, x.device)
        # halting is computed in fp32 at least; all of these are per token
        dtype = torch.promote_types(x.dtype, torch.float32)
        weighed, remainder, taken = (x.new_zeros(x.shape[:2], dtype=dtype) for _ in range(3))
        mean = torch.zeros_like(x, dtype=dtype)
        running = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        # ranks that share parameters gather them in each step, so all of them take every step
        may_end = may_end and not any(
            hasattr(parameter, "ds_shape") for parameter in self.parameters()
        )

        for step in range(steps):
            # the signal of a step: sines in even and cosines in odd columns
            angles = (step + 1) * waves
            signal = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten()[: self.dim]
            x = x + signal.to(x.dtype)
            if positions is not None and step:
                x = x + positions.to(x.dtype)
            new = apply(step, x)
            if self.halting is None or self.epsilon is None:
                x = new
                continue
            # the weight of this step, and the tokens for which it is the last
            halting = self.halting(x).squeeze(-1).to(dtype).sigmoid()
            last = (weighed + halting >= 1 - self.epsilon) | (step + 1 == steps)
            weight = torch.where(last, 1 - weighed, halting) * running
            mean = mean + weight[..., None] * new
            x = torch.where(running[..., None], new, x)
            weighed = weighed + weight
            remainder = remainder + weight * last
            taken = taken + running
            running = running & ~last
            if may_end and not (running if real is None else running & real).any():
                break

        return (x, None, None) if self.halting is None else (mean.to(x.dtype), remainder, taken)
