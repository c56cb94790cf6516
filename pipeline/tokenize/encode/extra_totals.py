"""Declared columns of `extra`, such as licenses and scores: select them, and total them by set."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

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
    totals: ExtraTotals = {key: _empty_total() for key in keys}

    for content, tokens in rows:
        for key, value in json.loads(content or "{}").items():
            total = totals[key]
            total["documents"] += 1

            # numbers are summed up, all other values are counted
            if (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and math.isfinite(value)
            ):
                _add_numbers(
                    total["numbers"], {"count": 1, "sum": value, "min": value, "max": value}
                )
            else:
                name = (
                    value
                    if isinstance(value, str)
                    else json.dumps(value, sort_keys=True, ensure_ascii=False)
                )
                _add_amounts(
                    total["values"].setdefault(name[:_MOST_VALUE_CHARACTERS], {}), 1, tokens
                )

    return {key: _limit_values(total) for key, total in totals.items()}


def merge_totals(parts: Iterable[ExtraTotals], keys: Sequence[str]) -> ExtraTotals:
    """Return the sum of totals; the order of the parts matters only for the rounding of sums."""
    totals: ExtraTotals = {key: _empty_total() for key in keys}

    for part in parts:
        for key, added in part.items():
            total = totals[key]
            total["documents"] += added["documents"]
            for name, amounts in added["values"].items():
                _add_amounts(
                    total["values"].setdefault(name, {}), amounts["documents"], amounts["tokens"]
                )
            _add_amounts(total["others"], added["others"]["documents"], added["others"]["tokens"])
            if added["numbers"]:
                _add_numbers(total["numbers"], added["numbers"])

    return {key: _limit_values(total) for key, total in totals.items()}


def _empty_total() -> dict[str, object]:
    return {"documents": 0, "values": {}, "others": {"documents": 0, "tokens": 0}, "numbers": {}}


def _add_amounts(amounts: dict[str, int], documents: int, tokens: int) -> None:
    amounts["documents"] = amounts.get("documents", 0) + documents
    amounts["tokens"] = amounts.get("tokens", 0) + tokens


def _add_numbers(numbers: dict[str, Any], added: Mapping[str, Any]) -> None:
    numbers["count"] = numbers.get("count", 0) + added["count"]
    numbers["sum"] = numbers.get("sum", 0) + added["sum"]
    numbers["min"] = min(numbers.get("min", added["min"]), added["min"])
    numbers["max"] = max(numbers.get("max", added["max"]), added["max"])


def _limit_values(total: dict[str, Any]) -> dict[str, Any]:
    """Return a total whose rare values are summed up as `others`."""
    ranked = sorted(total["values"].items(), key=lambda item: (-item[1]["documents"], item[0]))
    others = dict(total["others"])
    for _, amounts in ranked[_MOST_VALUES:]:
        _add_amounts(others, amounts["documents"], amounts["tokens"])
    return {**total, "values": dict(sorted(ranked[:_MOST_VALUES])), "others": others}
