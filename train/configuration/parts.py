"""The parts of a training: its algorithms, and the settings that others need or cannot have."""

from collections.abc import Iterator
from typing import Any, Final

from clozeline.model.configuration.capabilities import (
    EAGER_LAYERS,
    EARLIER_WEIGHTS,
    EVALUATIONS,
    EXACT_WEIGHTS,
    FIXED_GRAPHS,
    FP32_MASTERS,
    INITIAL_WEIGHTS,
    LAYERS_RUN_ONCE,
    LOGITS,
    NEIGHBORS,
    OWN_HISTORY,
    OWN_LAYERS,
    STATES_ON_DEVICE,
    TRAINED_BODY,
    TRAINED_PARAMETERS,
    UNDOABLE_STEPS,
    Part,
)
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.registries import FAMILIES

SETTINGS: Final = (
    Part(
        "zero.offload",
        lambda run: run.zero.offload != "none",
        needs={OWN_HISTORY},
        prevents={STATES_ON_DEVICE},
    ),
    Part("zero.stage=0", lambda run: run.zero.stage == 0, prevents={FP32_MASTERS}),
    Part("zero.stage=3", lambda run: run.zero.stage == 3, prevents={FIXED_GRAPHS}),
    Part("precision=bf16", lambda run: run.precision == "bf16", needs={FP32_MASTERS}),
    Part(
        "compile=true",
        lambda run: run.compile is True,
        needs={FIXED_GRAPHS},
        prevents={EAGER_LAYERS},
    ),
    Part(
        "data.label_capacity with compile=true",
        lambda run: run.compile is True and run.data.label_capacity is not None,
        prevents={LOGITS},
    ),
    Part(
        "activation_checkpointing",
        lambda run: run.activation_checkpointing,
        prevents={LAYERS_RUN_ONCE},
    ),
    Part(
        "data.batch_tokens", lambda run: run.data.batch_tokens is not None, needs={STATES_ON_DEVICE}
    ),
    Part("data.length_buckets", lambda run: run.data.length_buckets, prevents={NEIGHBORS}),
    Part(
        "evaluate.every=null or evaluate.max_rows=0",
        lambda run: run.evaluate.every is None or run.evaluate.max_rows == 0,
        prevents={EVALUATIONS},
    ),
    Part("early_stop", lambda run: run.early_stop is not None, needs={EVALUATIONS}),
    Part("checkpoint.keep_best", lambda run: run.checkpoint.keep_best, needs={EVALUATIONS}),
    Part("on_divergence", lambda run: run.on_divergence is not None, needs={UNDOABLE_STEPS}),
    Part(
        "optimizer.weight_decay above 0",
        lambda run: run.optimizer.options.weight_decay > 0,
        owns={"the decay of weights"},
    ),
    Part(
        "model.init_from=null",
        lambda run: run.model.init_from is None,
        prevents={EARLIER_WEIGHTS},
    ),
    Part("model.init_from", lambda run: run.model.init_from is not None, owns={INITIAL_WEIGHTS}),
    Part("init_parts", lambda run: bool(run.init_parts), needs={EARLIER_WEIGHTS}),
    Part(
        "model.adapter",
        lambda run: run.model.adapter is not None,
        prevents={TRAINED_BODY},
        owns={TRAINED_PARAMETERS},
    ),
    Part("freeze", lambda run: bool(run.freeze), owns={TRAINED_PARAMETERS}),
    Part("model.share", lambda run: run.model.share != ShareConfig(), prevents={OWN_LAYERS}),
    Part(
        "model.quantization",
        lambda run: run.model.quantization is not None,
        prevents={EXACT_WEIGHTS},
    ),
)
"""Keys with values that other parts need or cannot have."""


def parts_of(config: Any) -> Iterator[Part]:
    """Yield the parts of a training, from its configuration."""
    yield from (part for part in SETTINGS if part.is_set(config))
    yield FAMILIES.load_class(config.model.family).part(f"model.family={config.model.family}")
    for name, options in config.model.heads.items():
        if options.compared_rows is not None:
            yield Part(f"model.heads.{name}", needs={NEIGHBORS})
    chosen = [pair for value in config.parts() for pair in value.chosen]
    named = [component for _, component in chosen]
    for key, components in (
        ("optimizer", [config.optimizer]),
        ("regularizer", [config.regularizer]),
        ("hooks", [hook for hook in config.all_hooks if hook not in named]),
    ):
        for component in components:
            if component is not None:
                yield component.type.part(f"{key}={component.name}")
    for value in config.parts():
        yield from (part for part in value.settings if part.is_set(value))
    yield from (component.type.part(f"{key}={component.name}") for key, component in chosen)
