"""Keys that take one value or a list of them: `text=review` is `text=[review]`."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


ONE_OR_MORE = BeforeValidator(_as_list)
"""Annotation of a key with a list of texts or paths, which may also be one of them."""
Names: TypeAlias = Annotated[list[str], ONE_OR_MORE]
"""Names, such as those of columns."""
