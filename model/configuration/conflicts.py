"""Settings of a training run that hooks and pruning methods can declare as conflicts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from clozeline.model.configuration.layer import ShareConfig


@dataclass(frozen=True)
class Conflict:
    """A setting that an algorithm refuses: its class has `conflicts = {OFFLOAD: "the reason"}`."""

    key: str
    """as the user writes it; `{config}` stands for the configuration of the run"""
    is_set: Callable[[Any], bool]
    """whether the configuration of a run has this setting"""
    relation: str = "cannot be combined with"

    def explain(self, config: Any) -> str:
        """Return the second half of a message: `cannot be combined with distil`."""
        return f"{self.relation} {self.key.format(config=config)}"


QUANTIZATION: Final = Conflict(
    "model.quantization", lambda config: config.model.quantization is not None
)
ADAPTER: Final = Conflict("model.adapter", lambda config: config.model.adapter is not None)
SHARED_LAYERS: Final = Conflict("model.share", lambda config: config.model.share != ShareConfig())
NEW_WEIGHTS: Final = Conflict(
    "model.init_from", lambda config: config.model.init_from is None, relation="needs"
)
AVERAGES: Final = Conflict(
    "hooks.average", lambda config: any(hook.name == "average" for hook in config.all_hooks)
)
REGULARIZER: Final = Conflict("regularizer", lambda config: config.regularizer is not None)
DISTILLATION: Final = Conflict("distil", lambda config: config.distil is not None)
PROGRESSIVE_DISTILLATION: Final = Conflict(
    "distil.progressive",
    lambda config: config.distil is not None and config.distil.progressive is not None,
)
LABEL_CAPACITY: Final = Conflict(
    "data.label_capacity", lambda config: config.data.label_capacity is not None
)
OFFLOAD: Final = Conflict("zero.offload", lambda config: config.zero.offload != "none")
COMPILATION: Final = Conflict("compile", lambda config: config.compile is True)
RECOMPUTATION: Final = Conflict(
    "activation_checkpointing", lambda config: config.activation_checkpointing
)
AVERAGING_OPTIMIZER: Final = Conflict(
    "optimizer.name={config.optimizer.name}", lambda config: config.optimizer.type.averages
)
MATRIX_OPTIMIZER: Final = Conflict(
    "optimizer.name={config.optimizer.name}",
    lambda config: config.optimizer.type.statistics != "element",
)
"""An optimizer whose statistics do not belong to single weights."""
