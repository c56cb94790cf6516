"""Initial weights: the law of each parameter, drawn from a generator of its own, which seed and name decide."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._vocabulary_head import VocabularyHead
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.feed_forward import FeedForward
from clozeline.model.layers.norm import NoNorm, RMSNorm
from clozeline.model.layers.position import T5Bias
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.parameters.initial_values import Draw, constant, generator_for, normal
from clozeline.model.parameters.sharding import WHOLE, Placement

_MATRICES = (nn.Linear, nn.Embedding, VocabularyProjection)
_NORMS = (nn.LayerNorm, RMSNorm, NoNorm)


def initialize_parameters(model: nn.Module, config: ModelConfig, seed: int, placement: Placement = WHOLE) -> None:
    """Draw every parameter: its values are a function of the seed, its name and its shape.

    Neither the order of building, nor what is built beside it, nor the distribution over ranks matters. Draws are fp32
    on the host, whatever the parameters are. A tied weight is drawn once, under its first name.

    Args:
        model: whose parameters are drawn.
        config: deviations and cutoff.
        seed: of the draws.
        placement: of its parameters.
    """
    drawn = initial_distributions(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            with placement.gather([parameter]):
                fresh = torch.empty(parameter.shape)
                drawn[name](fresh, generator_for(seed, name))
                parameter.copy_(fresh)


def initial_distributions(model: nn.Module, config: ModelConfig) -> dict[str, Draw]:
    """Return the law of each parameter by name: biases are 0, norm gains 1, matrices as `init` says.

    A tied weight has the law of the module where it first occurs. A class whose parameters are none of these declares
    their laws in `initial_weights`, by names below it; it is given the law of matrices.

    Raises:
        NotImplementedError: a class declares no law for one of its parameters.
    """
    exceptional = _t5_deviations(model, config) if config.init.scheme == "t5" else _normal_deviations(model, config)
    usual = normal(config.init.std, config.init.cutoff)
    known = {key: normal(deviation, config.init.cutoff) for key, deviation in exceptional.items()}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for module in model.modules():
        own = getattr(module, "initial_weights", None)
        for name, law in ({} if own is None else own(usual)).items():
            known.setdefault(id(module.get_parameter(name)), law)
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in known:
                known[id(parameter)] = _initial_distribution(module, name, usual)
    return {name: known[key] for key, name in names.items()}


def _initial_distribution(module: nn.Module, name: str, usual: Draw) -> Draw:
    if name == "bias":
        return constant(0.0)
    if name == "weight" and isinstance(module, (*_MATRICES, *_NORMS)):
        return usual if isinstance(module, _MATRICES) else constant(1.0)
    kind = type(module)
    raise NotImplementedError(
        f"{kind.__module__}.{kind.__qualname__}: no law for the initial values of its parameter {name}; declare it in "
        "a method `initial_weights` of the class"
    )


def _normal_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return the deviations that are not `init.std`: of embedding tables, and of projections into the residual."""
    deviations = _residual_deviations(model, config)
    if config.init.embedding_std is not None:
        tables = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
        deviations |= {id(weight): config.init.embedding_std for weight in tables}
    return deviations


def _residual_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return GPT-2's deviations: projections into the residual stream shrink with their number, two a layer.

    The transform of a head, which reads the stream, is one of them (ModernBERT).
    """
    if not config.init.scale_residual:
        return {}
    deviation = config.init.std / (2 * config.layers) ** 0.5
    parts = {Attention: "out", FeedForward: "down", VocabularyHead: "transform"}
    found = [
        getattr(module, name) for module in model.modules() for kind, name in parts.items() if isinstance(module, kind)
    ]
    return {id(block.weight): deviation for block in found if isinstance(block, nn.Linear)}


def _t5_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return T5's deviations: fan-in of each projection; queries also have the factor that the scores lack."""
    weights: list[tuple[Tensor, float]] = []
    for module in model.modules():
        if isinstance(module, Attention):
            weights += [
                (module.query.weight, (module.query.in_features * module.head_dim) ** -0.5),
                (module.key.weight, module.key.in_features**-0.5),
                (module.value.weight, module.value.in_features**-0.5),
                (module.out.weight, module.out.in_features**-0.5),
            ]
        elif isinstance(module, T5Bias):
            weights.append((module.table.weight, config.dim**-0.5))
    deviations = {id(weight): deviation for weight, deviation in weights}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            deviations.setdefault(id(module.weight), module.in_features**-0.5)
        elif isinstance(module, nn.Embedding):
            deviations.setdefault(id(module.weight), 1.0)
        elif isinstance(module, VocabularyProjection):
            deviations.setdefault(id(module.weight), (config.decoder_dim or config.dim) ** -0.5)
    return deviations
