"""The hooks of a run, in the order in which the engine calls them."""

from clozeline.model.build import Model
from clozeline.train.compression.distillation.student import Student
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.hooks import Hook


def hooks_of_run(config: TrainConfig, model: Model) -> list[Hook]:
    """Return the hooks that a configuration names, sorted by their `turn`: statistics first, pruning last.

    Within a turn: the regularizer, the stages of a distillation, then `hooks` in their order.
    """
    hooks: list[Hook] = [] if config.regularizer is None else [config.regularizer.build()]
    if isinstance(model, Student) and model.progressive is not None:
        hooks.append(model.progressive)
    hooks += [chosen.build() for chosen in config.hooks]
    if config.prune is not None:
        hooks.append(config.prune.build())
    return sorted(hooks, key=lambda hook: hook.turn)
