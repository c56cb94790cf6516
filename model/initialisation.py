"""Initial weights: each drawn from a generator of its own, which seed and name decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import xxhash
from torch import Tensor, nn

from model.config import ModelConfig
from model.heads.masked_lm import MaskedLM
from model.layers.attention import Attention
from model.layers.characters import CharacterEncoder, Highway
from model.layers.feed_forward import FeedForward
from model.layers.lstm import LongShortTermMemory
from model.layers.position import T5Bias
from model.layers.projected_lstm import ProjectedLstm
from model.layers.vocabulary import VocabularyProjection
from model.whole_shapes import WHOLE, Placement

__all__ = ["initialise", "keyed"]


def initialise(model: nn.Module, config: ModelConfig, seed: int, placement: Placement = WHOLE) -> None:
    """Draw every weight; biases become 0, norm gains stay 1.

    Each parameter has a generator of its own, keyed by the seed and the parameter's name: neither the order of building
    nor the distribution over ranks matters. Draws are fp32 on the host, whatever the parameters are. A tied weight is
    drawn once, under its first name. A class lists in `drawn` its own parameters that begin like weights. Recurrent
    layers and the encoder of characters draw themselves.

    Args:
        model: whose parameters are drawn.
        config: deviations and cutoff.
        seed: of the draws.
        placement: of its parameters.
    """
    exceptional = _t5_deviations(model, config) if config.init.scheme == "t5" else _normal_deviations(model, config)
    drawn: set[int] = set()
    for path, module in model.named_modules():
        own = [parameter for parameter in module.parameters(recurse=False) if id(parameter) not in drawn]
        if isinstance(module, (CharacterEncoder, Highway, LongShortTermMemory, ProjectedLstm)):
            with placement.gather(list(module.parameters())), _redrawn(module, keyed(seed, path)):
                module.reset_parameters()
        weighted = isinstance(module, (nn.Linear, nn.Embedding, VocabularyProjection))
        names = [*getattr(module, "drawn", ()), *(["weight"] if weighted else [])]
        if not names or not own:
            continue
        with placement.gather(own), torch.no_grad():
            for name in names:
                weight: nn.Parameter = getattr(module, name)
                if id(weight) not in drawn:
                    drawn.add(id(weight))
                    deviation = exceptional.get(id(weight), config.init.std)
                    _draw(weight, deviation, config.init.cutoff, keyed(seed, f"{path}.{name}"))
            if weighted and (bias := getattr(module, "bias", None)) is not None:
                nn.init.zeros_(bias)


def keyed(seed: int, name: str) -> int:
    """Return the seed of one generator, 63 bits of the xxh3 of seed and name."""
    return xxhash.xxh3_64_intdigest(f"{seed} {name}") >> 1


def _draw(weight: Tensor, deviation: float, cutoff: float | None, seed: int) -> None:
    fresh, generator = torch.empty(weight.shape), torch.Generator().manual_seed(seed)
    if cutoff is None:
        nn.init.normal_(fresh, std=deviation, generator=generator)
    else:
        bound = cutoff * deviation
        nn.init.trunc_normal_(fresh, std=deviation, a=-bound, b=bound, generator=generator)
    weight.copy_(fresh)


@contextmanager
def _redrawn(module: nn.Module, seed: int) -> Iterator[None]:
    """Let a module draw its parameters in fp32 on the host, from a generator with this seed."""
    parameters = list(module.parameters())
    held = [parameter.data for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data.to("cpu", torch.float32, copy=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
    for parameter, data in zip(parameters, held, strict=True):
        data.copy_(parameter.data)
        parameter.data = data


def _normal_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return the deviations that are not `init.std`: of embedding tables, and of projections into the residual."""
    deviations = _residual_deviations(model, config)
    if config.init.embedding_std is not None:
        tables = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
        deviations |= {id(weight): config.init.embedding_std for weight in tables}
    return deviations


def _residual_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return GPT-2's deviations: projections into the residual stream shrink with their number, two a layer.

    The transform of the masked LM head, which reads the stream, is one of them (ModernBERT).
    """
    if not config.init.scale_residual:
        return {}
    deviation = config.init.std / (2 * config.layers) ** 0.5
    parts = {Attention: "out", FeedForward: "down", MaskedLM: "transform"}
    found = [
        getattr(module, name) for module in model.modules() for kind, name in parts.items() if isinstance(module, kind)
    ]
    return {id(block.weight): deviation for block in found if isinstance(block, nn.Linear)}


def _t5_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return T5's deviations: fan-in of each projection; queries also have the factor that the scores lack."""
    dim = config.dim
    weights: list[tuple[Tensor, float]] = []
    for module in model.modules():
        if isinstance(module, Attention):
            weights += [
                (module.query.weight, (dim * module.head_dim) ** -0.5),
                (module.key.weight, dim**-0.5),
                (module.value.weight, dim**-0.5),
                (module.out.weight, module.out.in_features**-0.5),
            ]
        elif isinstance(module, T5Bias):
            weights.append((module.table.weight, dim**-0.5))
    deviations = {id(weight): deviation for weight, deviation in weights}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            deviations.setdefault(id(module.weight), module.in_features**-0.5)
        elif isinstance(module, nn.Embedding):
            deviations.setdefault(id(module.weight), 1.0)
        elif isinstance(module, VocabularyProjection):
            deviations.setdefault(id(module.weight), dim**-0.5)
    return deviations
