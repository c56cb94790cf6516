"""The option `grouping`: any grouping whose rows an objective can read."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from clozeline.configuration.named_algorithms import IsName
from clozeline.configuration.unread_keys import non_default_keys
from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import GROUPINGS


def _check(name: str) -> str:
    try:
        has_target = GROUPINGS.load_class(name).second_text == "target"
    except ConfigurationError as error:  # pydantic reports ValueErrors
        raise ValueError(str(error)) from error
    if has_target:
        raise ValueError(f"rows of {name} are pairs of texts; expected packed, document or another")
    return name


GroupingName: TypeAlias = Annotated[str, IsName(), AfterValidator(_check)]
"""Type of the option."""


def holds_documents(options: Any) -> bool:
    """Return whether a row of the grouping may hold several documents."""
    return GROUPINGS.load_class(options.grouping).holds_documents


def check_grouping(options: Any) -> None:
    """Raise ValueError if the grouping lacks what another option is about."""
    name = options.grouping
    if not GROUPINGS.load_class(name).has_separator and "separator" in non_default_keys(options):
        raise ValueError(
            f"separator: has no effect with grouping '{name}': remove the key, or set grouping to "
            "one with separators, such as packed"
        )
    if not options.cross_documents and not holds_documents(options):
        raise ValueError(
            f"cross_documents: false is for packed rows; a row of {name} holds one document"
        )
