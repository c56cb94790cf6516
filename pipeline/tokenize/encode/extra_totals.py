"""Declared columns of `extra`, such as licenses and scores: select them, and total them by set."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from clozeline.pipeline.execution.unit_record import add_counts

_MOST_VALUES: Final = 256
"""most values of a key that are counted separately; rarer values are summed up as `others`"""
_MOST_VALUE_CHARACTERS: Final = 1000

ExtraTotals: TypeAlias = dict[str, dict[str, Any]]
"""By key: the `documents` that have it; documents and tokens of each of its `values`, and of
`others`; count, sum, min and max of `numbers`."""


def select_extra(extra: Mapping[str, object], keys: Sequence[str]) -> str | None:
    """Return the declared keys of a document as a JSON object; None if it has none of them."""
    chosen = {key: extra[key] for key in keys if extra.get(key) is not None}
    return json.dumps(chosen, sort_keys=True, ensure_ascii=False) if chosen else None


def count_extra(rows: Iterable[tuple[str | None, int]], keys: Sequence[str]) -> ExtraTotals:
    """Return the totals over documents, given the JSON object and the tokens of each."""
    return merge_totals((_count_document(content, tokens) for content, tokens in rows), keys)


def merge_totals(parts: Iterable[ExtraTotals], keys: Sequence[str]) -> ExtraTotals:
    """Return the sum of totals; the order of the parts matters only for the rounding of sums."""
    totals: ExtraTotals = {
        key: {
            "documents": 0,
            "values": {},
            "others": {"documents": 0, "tokens": 0},
            "numbers": {},
        }
        for key in keys
    }

    for part in parts:
        for key, added in part.items():
            total = totals[key]
            numbers = [each["numbers"] for each in (total, added) if each.get("numbers")]
            limits = {
                name: limit(each[name] for each in numbers)
                for name, limit in (("min", min), ("max", max))
                if numbers
            }
            add_counts(total, added)
            total["numbers"] |= limits

    return {key: _limit_values(total) for key, total in totals.items()}


def _count_document(content: str | None, tokens: int) -> ExtraTotals:
    found = json.loads(content or "{}")
    return {key: {"documents": 1, **_count_value(value, tokens)} for key, value in found.items()}


def _count_value(value: Any, tokens: int) -> dict[str, Any]:
    """Return numbers to be summed up; all other values are counted."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return {"numbers": {"count": 1, "sum": value, "min": value, "max": value}}
    name = (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )
    return {"values": {name[:_MOST_VALUE_CHARACTERS]: {"documents": 1, "tokens": tokens}}}


def _limit_values(total: dict[str, Any]) -> dict[str, Any]:
    """Return a total whose rare values are summed up as `others`."""
    ranked = sorted(total["values"].items(), key=lambda item: (-item[1]["documents"], item[0]))
    for _, amounts in ranked[_MOST_VALUES:]:
        add_counts(total["others"], amounts)
    return {**total, "values": dict(sorted(ranked[:_MOST_VALUES]))}
