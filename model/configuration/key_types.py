"""Types of configuration keys with their bounds."""

from typing import Annotated, Final, Literal

from pydantic import Field

# upper bounds catch typing errors before memory is allocated; the largest published models fit
Width = Annotated[int, Field(ge=1, le=2**20)]
Depth = Annotated[int, Field(ge=1, le=1024)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Activation = Literal["gelu", "gelu_tanh", "relu", "relu_squared", "silu"]
UNIT_RANGE: Final = (0.0, 1.0)
"""Default of a `range` of numbers."""


def list_to_tuple(value: object) -> object:
    """Return a list as the tuple that strict validation expects, and other values unchanged."""
    return tuple(value) if isinstance(value, list) else value


def refuse_empty_range(bounds: tuple[float, float]) -> None:
    """Raise ValueError if the bounds of a `range` are not in order."""
    if not bounds[0] < bounds[1]:
        raise ValueError(f"range: the lower bound comes first, got {list(bounds)}")
