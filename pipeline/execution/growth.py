"""Check that a run may grow: the same recipe as before, and inputs that can join it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.plan import LEAST_BYTES, PLAN_STAGE
from clozeline.pipeline.recipe import Recipe, load_recipe

# Keys that may differ between the starts of a run that grows.
_FREE: Final = ("input", "output", "executor", "extend", "rebalance", "keep_intermediates", "drop")


def check_extension(recipe: Recipe, only: str | None) -> None:
    """Raise ConfigurationError unless inputs can join the run, or start it."""
    if only is not None:
        raise ConfigurationError(f"extend: expected all stages to run, got only '{only}': use `clozeline pipeline`")
    if recipe.limit is not None:
        raise ConfigurationError(
            f"extend: expected a complete run, got the preview of limit={recipe.limit}: leave limit out"
        )
    if not recipe.input or not recipe.has(PLAN_STAGE):
        raise ConfigurationError("extend: expected old and new inputs, and the recipe's key 'clean'")
    config = recipe.folder(PLAN_STAGE) / "config.yaml"
    if config.is_file():
        before, now = (_with_sizes(to_plain(each)) for each in (load_recipe(config), recipe))
        for key, old, new in _differences(before, now, ""):
            if key.partition(".")[0] not in _FREE:
                raise ConfigurationError(
                    f"extend: the recipe differs from that of {recipe.output_folder} in {key}: expected {old!r}, got "
                    f"{new!r}; restore it, or run this recipe with the old inputs first, which makes again what depends"
                    " on it"
                )


def _with_sizes(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe with the default sizes of units as numbers, as earlier versions wrote them."""
    sizes = {name: size or LEAST_BYTES for name, size in plain["plan"].items()}
    return {**plain, "plan": sizes}


def _differences(before: Any, now: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys that differ, with both values."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield key, before, now
