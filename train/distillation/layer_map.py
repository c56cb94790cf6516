"""Maps from layers of a student to layers of its teacher."""

from collections.abc import Mapping

from clozeline.errors import ConfigurationError


def spread_layers(student: int, teacher: int, first: int = 1) -> dict[int, int]:
    """Return the uniform map g(m) = m x teacher / student of TinyBERT (arXiv 1909.10351), rounded down.

    Args:
        student: layers of the student.
        teacher: layers of the teacher.
        first: first layer of the map; 0 is the output of the embeddings.

    Example:
        >>> spread_layers(4, 12), spread_layers(3, 6, first=0)
        ({1: 3, 2: 6, 3: 9, 4: 12}, {0: 0, 1: 2, 2: 4, 3: 6})
    """
    return {layer: layer * teacher // student for layer in range(first, student + 1)}


def check_layers(layers: Mapping[int, int], student: int, teacher: int, key: str, first: int = 1) -> dict[int, int]:
    """Return a map whose layers exist, in the order of the student's.

    Args:
        layers: student's layer to teacher's; empty: `spread_layers`.
        student: layers of the student.
        teacher: layers of the teacher.
        key: of the map, for errors.
        first: lowest layer that can be named.

    Raises:
        ConfigurationError: a layer is not there.
    """
    for side, named, count in (("student", layers.keys(), student), ("teacher", layers.values(), teacher)):
        if beyond := sorted(layer for layer in named if not first <= layer <= count):
            raise ConfigurationError(f"{key}: the {side} has the layers {first} to {count}, got {beyond[0]}")
    return dict(sorted(layers.items())) if layers else spread_layers(student, teacher, first)


def describe_layers(layers: Mapping[int, int]) -> str:
    """Return a map as text: `1→2 2→4`."""
    return " ".join(f"{here}→{there}" for here, there in layers.items())
