"""Find the configuration key behind each reason for rejecting a document."""

from collections.abc import Mapping, Sequence
from typing import Final

from clozeline.pipeline.clean.config import CleanConfig
from clozeline.pipeline.clean.extractors._extraction import EXTRACTION_KEYS
from clozeline.pipeline.clean.languages import LANGUAGE_KEYS
from clozeline.pipeline.registries import FilterComponent

STEP_KEYS: Final[Mapping[str, str]] = {
    "too_long": "limits.text_chars",
    "line_bytes": "limits.line_bytes",
    "empty": "input",
    "empty_side": "input",
    **EXTRACTION_KEYS,
    **LANGUAGE_KEYS,
}
"""The recipe key behind each reason that is not from a filter."""


def filters_by_source(config: CleanConfig) -> dict[str | None, Sequence[FilterComponent]]:
    """Return the filters of each source that sets filters, and of all others under None."""
    filters: dict[str | None, Sequence[FilterComponent]] = {None: config.filters}
    for name, source in config.sources.items():
        if source.filters is not None:
            filters[name] = source.filters
    return filters


def find_ruling_keys(config: CleanConfig) -> dict[str, str]:
    """Return the key behind each reason: `clean.language.keep`, or `gopher_quality.words`."""
    keys = dict(STEP_KEYS)
    for filters in filters_by_source(config).values():
        for component in filters:
            for reason in component.type.reasons:
                option = component.type.thresholds.get(reason)
                keys[reason] = f"{component.name}.{option}" if option else component.name
    return keys
