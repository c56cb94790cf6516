"""DoRA (arXiv 2402.09353): LoRA on the direction of each weight row, and a learned magnitude of it."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from clozeline.model.adapters._adapter import Undo
from clozeline.model.adapters.lora import Lora, LowRank
from clozeline.model.families import Family
from clozeline.model.parameters.initial_values import Draw, constant
from clozeline.model.parameters.sharding import WHOLE, Placement


class Dora(Lora):
    """h = m (W + scale B A) x / |W + scale B A| for each chosen linear map W, with the norm of each row of outputs.

    The magnitudes m are initially |W|, and B is 0, so that nothing changes. The norm has no gradient (section 4.3 of
    the paper). A map has rank x (inputs + outputs) + outputs parameters, which can be merged into its weight.
    """

    def update_of(self, path: str, linear: nn.Linear) -> LowRank:
        options = self.options
        size = linear.in_features, linear.out_features, options.rank_of(path)
        return Decomposed(*size, options.scale_of(path), options.dropout)

    @torch.no_grad()
    def initialize_from(self, family: Family, vocab_size: int, seed: int, placement: Placement = WHOLE) -> None:
        for path, part in self.parts.items():
            weight, magnitude = family.get_parameter(f"{path}.weight"), part.get_parameter("magnitude")
            with placement.gather([weight, magnitude]):
                magnitude.copy_(row_norms(weight))

    def apply_changes(self, family: Family) -> Iterator[Undo]:
        """Replace the computation of each map: inside it ZeRO stage 3 has its weight."""
        for path, part in self.parts.items():
            linear = family.get_submodule(path)
            assert isinstance(linear, nn.Linear)
            before = linear.forward
            linear.forward = partial(_compute, linear, before, part)  # type: ignore[method-assign]
            yield partial(setattr, linear, "forward", before)

    @torch.no_grad()
    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return m (W + scale B A) / |W + scale B A| of each chosen map, computed in fp32."""
        weights = {}
        for path, part in self.parts.items():
            assert isinstance(part, Decomposed)
            weight = family.get_parameter(f"{path}.weight")
            direction = weight.float() + part.product()
            factor = part.magnitude.float() / row_norms(direction)
            weights[f"{path}.weight"] = (factor[:, None] * direction).to(weight.dtype)
        return weights


class Decomposed(LowRank):
    """A low-rank update with magnitudes [outputs]."""

    def __init__(self, inputs: int, outputs: int, rank: int, scale: float, dropout: float) -> None:
        super().__init__(inputs, outputs, rank, scale, dropout)
        self.magnitude = nn.Parameter(torch.empty(outputs))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {**super().initial_weights(usual), "magnitude": constant(1.0)}  # then that of the weight

    def forward(self, x: Tensor, output: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """Map inputs [..., inputs] and W x [..., outputs] to outputs, without the bias."""
        assert output is not None
        assert weight is not None
        norms = row_norms(weight.detach() + self.product().to(weight.dtype))
        return (output + super().forward(x)) * (self.magnitude / norms)


def row_norms(weight: Tensor) -> Tensor:
    """Return the Euclidean norm of each row, [outputs], fp32."""
    return torch.linalg.vector_norm(weight.float(), dim=1)


def _compute(linear: nn.Linear, forward: Callable[[Tensor], Tensor], part: nn.Module, x: Tensor) -> Tensor:
    bias, output = dict(linear.named_parameters()).get("bias"), forward(x)
    changed: Tensor = part(x, output if bias is None else output - bias, linear.weight)
    changed = changed.to(output.dtype)
    return changed if bias is None else changed + bias
