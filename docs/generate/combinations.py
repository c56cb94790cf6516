"""The table of the parts of a training that do not go together, of all pairs, without training."""

from collections.abc import Iterator
from typing import Final

from clozeline.model.configuration.capabilities import Part, find_conflicts
from clozeline.model.registries import FAMILIES
from clozeline.train.configuration.parts import SETTINGS
from clozeline.train.registries import HOOKS, OPTIMIZERS, REGULARIZERS, TRAINING_KEYS

_HEAD: Final = """# What goes together

A start refuses two parts of a training if one needs what the other does not allow, or if both set
the same thing. The message names both keys. This table has every such pair of our algorithms and
settings; all others are accepted. `make docs` writes it from what the classes declare (`needs`,
`prevents`, `keys`, `owns`), and [custom algorithms](custom-algorithms.md) are compared in the same
way.

| part | is refused with |
|---|---|
"""
_KINDS: Final = [TRAINING_KEYS.load_class(name) for name in TRAINING_KEYS.available()]
_CHOICES: Final = {
    "optimizer": OPTIMIZERS,
    "hooks": HOOKS,
    "regularizer": REGULARIZERS,
    "model.family": FAMILIES,
    **{key: registry for kind in _KINDS for key, registry in kind.choices.items()},
}
_SEVERAL: Final = ("hooks", "distil.losses")
"""Keys that choose several algorithms at once."""


def every_part() -> Iterator[tuple[str, Part]]:
    """Yield our settings and algorithms, each with the key that chooses it."""
    yield from ((part.key, part) for part in SETTINGS)
    yield from ((part.key, part) for kind in _KINDS for part in kind.settings)
    for key, registry in _CHOICES.items():
        for name in registry.available():
            yield key, registry.load_class(name).part(f"{key}={name}")


def refused_pairs() -> Iterator[tuple[Part, Part]]:
    """Yield each pair that is refused in both orders, of parts that a run can have at once."""
    parts = list(every_part())
    for chosen_by, part in parts:
        for key, other in parts:
            at_once = key != chosen_by or (key in _SEVERAL and part is not other)
            if at_once and any(find_conflicts(part, other)):
                yield part, other


def combinations_page() -> str:
    """Return docs/combinations.md."""
    refused: dict[str, list[str]] = {}
    for part, other in refused_pairs():
        refused.setdefault(part.key, []).append(f"`{other.key}`")
    rows = (f"| `{key}` | {', '.join(others)} |" for key, others in refused.items())
    return _HEAD + "\n".join(rows) + "\n"
