"""Initialize parameters: the seed and the name of each decide its values."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import VocabularyHead
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.layer import FeedForward
from clozeline.model.layers.norm import NORMS
from clozeline.model.layers.position import T5Bias
from clozeline.model.layers.stack import LAYER
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.parameters.initial_values import (
    Draw,
    constant,
    generator_for,
    normal,
    uniform,
)
from clozeline.model.parameters.sharding import UNSHARDED, Placement

_MATRICES = (nn.Linear, nn.Embedding, VocabularyProjection)


class SkipInitialValues(TorchFunctionMode):
    """Skip the functions of `torch.nn.init` for values that will be overwritten anyway.

    Memory that is never written is not resident: a model whose matrices are replaced by stored
    integers never takes the memory of the dense one.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return keywords["tensor"] if "tensor" in keywords else args[0]
        return func(*args, **keywords)


def initialize_parameters(
    model: nn.Module,
    config: ModelConfig,
    seed: int,
    placement: Placement = UNSHARDED,
    prefix: str = "",
) -> None:
    """Initialize every parameter as a function of the seed, its name and its shape.

    Neither the order of construction, nor other parts of the model, nor the distribution over ranks
    matters. Values are drawn in fp32 on the host, whatever the dtype of the parameters. A tied
    weight is drawn once, under its first name. `prefix` precedes the names if `model` is a part of
    a larger model.
    """
    draw = initial_distributions(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.is_meta:
                continue
            with placement.gather([parameter]):
                values = torch.empty(parameter.shape)
                draw[name](values, generator_for(seed, f"{prefix}{name}"))
                parameter.copy_(values)


def initial_distributions(model: nn.Module, config: ModelConfig) -> dict[str, Draw]:
    """Return the distribution of each parameter by name: bias 0, norm gain 1, matrices by `init`.

    A tied weight has the distribution of the module where it first occurs. A class with further
    parameters declares their distributions in a method `initial_weights`, whose argument is the
    distribution of matrices.

    Raises:
        NotImplementedError: a class declares no distribution for one of its parameters.
    """
    init = config.init

    def draw(deviation: float) -> Draw:
        return uniform(3**0.5 * deviation) if init.uniform else normal(deviation, init.cutoff)

    heads = [id(m.weight) for m in model.modules() if isinstance(m, VocabularyProjection)]
    of_heads = {} if init.head_std is None else dict.fromkeys(heads, init.head_std)
    deviations = _t5_deviations if init.scheme == "t5" else _normal_deviations
    exceptional = deviations(model, config) | of_heads
    usual = draw(init.std)
    known = {key: draw(deviation) for key, deviation in exceptional.items()}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    # the order decides: exceptions, then what a class declares, then its type
    for module in model.modules():
        declared = getattr(module, "initial_weights", None)
        for name, distribution in ({} if declared is None else declared(usual)).items():
            known.setdefault(id(module.get_parameter(name)), distribution)
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in known:
                known[id(parameter)] = _initial_distribution(module, name, usual)

    return {name: known[key] for key, name in names.items()}


def _initial_distribution(module: nn.Module, name: str, usual: Draw) -> Draw:
    if name == "bias":
        return constant(0.0)
    if name == "weight" and isinstance(module, (*_MATRICES, *NORMS)):
        return usual if isinstance(module, _MATRICES) else constant(1.0)
    module_class = type(module)
    raise NotImplementedError(
        f"{module_class.__module__}.{module_class.__qualname__}: the parameter {name} has no "
        "distribution of initial values; declare one in a method `initial_weights` of the class"
    )


def _normal_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return standard deviations other than `init.std`: embedding tables, residual projections."""
    init = config.init
    deviations: dict[int, float] = {}
    # GPT-2's projections into the residual stream; the transform of a head counts as one of them
    # (ModernBERT)
    parts: dict[type[nn.Module], str] = {}
    residual = init.residual_std or init.std / (2 * config.layers) ** 0.5
    if init.scale_residual or init.residual_std is not None:
        parts = {Attention: "out", FeedForward: "down"}
    if init.scale_residual:
        parts[VocabularyHead] = "transform"

    for path, module in model.named_modules():
        projections = [
            getattr(module, name)
            for module_class, name in parts.items()
            if isinstance(module, module_class)
        ]
        for linear in projections:
            if isinstance(linear, nn.Linear):
                deviations[id(linear.weight)] = residual
        if isinstance(module, FeedForward) and init.by_depth and (layer := LAYER.match(path)):
            for linear in filter(None, (module.gate, module.up, module.down)):
                usual = deviations.get(id(linear.weight), init.std)
                deviations[id(linear.weight)] = usual * (2 + 2 * int(layer["index"])) ** -0.5
        if isinstance(module, nn.Embedding) and init.embedding_std is not None:
            deviations[id(module.weight)] = init.embedding_std

    return deviations


def _t5_deviations(model: nn.Module, config: ModelConfig) -> dict[int, float]:
    """Return T5's standard deviations, by fan-in; queries include the factor of the scores."""
    weights: list[tuple[Tensor, float]] = []

    for module in model.modules():
        if isinstance(module, Attention):
            weights.append(
                (module.query.weight, (module.query.in_features * module.head_dim) ** -0.5)
            )
            others = (module.key, module.value, module.out)
            weights += [(linear.weight, linear.in_features**-0.5) for linear in others]
        elif isinstance(module, T5Bias):
            weights.append((module.table.weight, config.dim**-0.5))
    # everything else: by its fan-in, unless attention has set it above
    deviations = {id(weight): deviation for weight, deviation in weights}

    for module in model.modules():
        if isinstance(module, nn.Linear):
            deviations.setdefault(id(module.weight), module.in_features**-0.5)
        elif isinstance(module, nn.Embedding):
            deviations.setdefault(id(module.weight), 1.0)
        elif isinstance(module, VocabularyProjection):
            deviations.setdefault(id(module.weight), (config.decoder_dim or config.dim) ** -0.5)

    return deviations
