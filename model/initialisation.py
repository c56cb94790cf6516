"""Initial weights: drawn from torch's generator, which the caller seeds."""

from __future__ import annotations

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

__all__ = ["initialise"]


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Draw every weight in the order of `model.modules()`; biases become 0, norm gains stay 1.

    A tied weight is drawn once, where it first occurs. A class lists in `drawn` its own parameters that begin like
    weights. Recurrent layers and the encoder of characters draw themselves. Same seed and same configuration, same
    bits.
    """
    exceptional = _t5_deviations(model, config) if config.init.scheme == "t5" else _normal_deviations(model, config)
    drawn: set[int] = set()
    for module in model.modules():
        for name in getattr(module, "drawn", ()):
            _draw(getattr(module, name), config.init.std, config.init.cutoff)
        if isinstance(module, (CharacterEncoder, Highway, LongShortTermMemory, ProjectedLstm)):
            module.reset_parameters()
        if not isinstance(module, (nn.Linear, nn.Embedding, VocabularyProjection)):
            continue
        if id(module.weight) not in drawn:
            drawn.add(id(module.weight))
            _draw(module.weight, exceptional.get(id(module.weight), config.init.std), config.init.cutoff)
        if (bias := getattr(module, "bias", None)) is not None:
            nn.init.zeros_(bias)


def _draw(weight: Tensor, deviation: float, cutoff: float | None) -> None:
    if cutoff is None:
        nn.init.normal_(weight, std=deviation)
    else:
        nn.init.trunc_normal_(weight, std=deviation, a=-cutoff * deviation, b=cutoff * deviation)


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
