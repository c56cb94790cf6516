"""What the parts of a run need from each other, declared on their classes and compared here.

A part is an algorithm or a setting of a key. Two parts do not go together if one prevents what the
other needs, or if both own one state.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Final


@dataclass(frozen=True)
class Capability:
    """Something that a part may need; a run has it unless another part prevents it."""

    what: str
    """as it follows `needs` in a message"""
    remedy: str = "change or remove one of the two"


AVERAGE: Final = "average"
"""Name of a state that is evaluated and exported instead of the weights."""

STATES_ON_DEVICE: Final = Capability("gradients and states on the device of the weights")
EVALUATED_WEIGHTS: Final = Capability("evaluations of the weights that train, not of their average")
EXACT_WEIGHTS: Final = Capability("weights that are not rounded")
TRAINED_BODY: Final = Capability("a body that trains")
ONE_TRAINER: Final = Capability("weights that only the optimizer changes")
OWN_HISTORY: Final = Capability(
    "an update of each weight that depends on its own history alone", "choose optimizer=adamw"
)
UNDOABLE_STEPS: Final = Capability("steps that can be undone")
OWN_LAYERS: Final = Capability("layers with weights of their own")
ALL_STATES: Final = Capability("the states of all tokens after each layer")
COMPARED_LAYERS: Final = Capability("a family whose layers can be compared with another model's")
EAGER_LAYERS: Final = Capability("layers that are not compiled")
LAYERS_RUN_ONCE: Final = Capability("layers that are not recomputed")
FIXED_GRAPHS: Final = Capability(
    "layers that are one graph for rows of any length, and gather no parameters"
)
LOGITS: Final = Capability("logits of heads that are not compiled")
NEIGHBORS: Final = Capability("micro-batches of rows in their order, which it compares")

EARLIER_WEIGHTS: Final = Capability(
    "the weights of an earlier model", "set model.init_from to its run or folder"
)
EVALUATIONS: Final = Capability(
    "evaluations during the training",
    "set evaluate.every to the steps between evaluations, and evaluate.max_rows to more than 0",
)
FP32_MASTERS: Final = Capability(
    "fp32 masters of the weights", "set zero.stage=1, which also suits a single process"
)

INITIAL_WEIGHTS: Final = "the initial weights"
TRAINED_PARAMETERS: Final = "the parameters that train"
"""What one part of a run alone sets."""


@dataclass(frozen=True)
class Part:
    """An algorithm or a setting in a run."""

    key: str
    """the key that chooses it, and its value: hooks=average"""
    is_set: Callable[[Any], bool] = bool
    """whether the configuration of a run, or the value of an extension's key, has this setting"""
    needs: Collection[Capability] = ()
    prevents: Collection[Capability] = ()
    owns: Collection[str] = ()


class Declared:
    """What an algorithm declares on its class."""

    needs: ClassVar[Collection[Capability]] = ()
    """What it needs from the other parts of a run."""
    prevents: ClassVar[Collection[Capability]] = ()
    """What no other part of the run can have."""
    keys: frozenset[str] = frozenset()
    """Names of its elementwise states in a checkpoint."""
    owns: ClassVar[Collection[str]] = ()
    """What else it sets alone, such as `the layers that train`."""

    @classmethod
    def part(cls, key: str) -> Part:
        """Return the part of a run that it is, which a key and its value choose."""
        averages = (EVALUATED_WEIGHTS,) if AVERAGE in cls.keys else ()
        states = (f"the state {state}" for state in cls.keys)
        return Part(
            key,
            needs=cls.needs,
            prevents=(*cls.prevents, *averages),
            owns=(*states, *cls.owns),
        )


def find_conflicts(one: Part, other: Part) -> Iterator[str]:
    """Yield why two parts do not go together."""
    for part, second in ((one, other), (other, one)):
        for needed in part.needs:
            if needed in second.prevents:
                yield (
                    f"{part.key}: needs {needed.what}, which {second.key} does not allow: "
                    f"{needed.remedy}"
                )
    for owned in one.owns:
        if owned in other.owns:
            yield f"{one.key}: sets {owned}, as {other.key} does: change or remove one of the two"


def check_parts(parts: Iterable[Part]) -> None:
    """Check that the parts of a run go together.

    Raises:
        ValueError: two do not; the message names both keys.
    """
    for one, other in combinations(parts, 2):
        for problem in find_conflicts(one, other):
            raise ValueError(problem)
