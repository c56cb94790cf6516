"""Rows of named fields to records: what the readers of JSON lines and of tables share."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.readers import Counted, RawRecord

FIELD_REASONS: Final = ("no_text", "empty", "text_type", "bad_unicode")
_TYPES: Final = {int: "a number", float: "a number", bool: "a truth value", list: "a list", dict: "an object"}
_EXTRA_BYTES: Final = 1 << 16
_NAMES: Final = 10
_NAME_CHARACTERS: Final = 40
_SAFE_INTEGER: Final = 2**63


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FieldOptions:
    """The names of the fields; other fields go to `extra`."""

    text_key: str = "text"
    """field that holds the text"""
    url_key: str = "url"
    """field that holds the address, if any"""


def make_record(
    row: Mapping[str, Any], options: FieldOptions, kind: str, locator: int, length: int, span: int | None = None
) -> RawRecord | Counted:
    """Return the record of a row, or the reason why its text is missing, empty or not text."""
    taken = length if span is None else span
    text = row.get(options.text_key)
    if text is None:
        why = f"{options.text_key!r} is null" if options.text_key in row else lacks(options.text_key, row)
        return Counted("malformed", "no_text", taken, why)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", taken)
    if not isinstance(text, str):
        return Counted("malformed", "text_type", taken, f"{options.text_key!r} is {_TYPES.get(type(text), 'no text')}")
    if not text.strip():
        return Counted("malformed", "empty", taken)
    flags = 0
    if not _is_valid(text):
        text, flags = _repaired(text), FLAG_REPLACEMENTS
    url = row.get(options.url_key)
    rest = {name: value for name, value in row.items() if name not in (options.text_key, options.url_key)}
    return RawRecord(
        locator=locator,
        kind=kind,
        length=length,
        text=text,
        url=_repaired(url) if isinstance(url, str) and url else None,
        flags=flags,
        extra=_extra(rest),
        span=span,
    )


def lacks(text_key: str, names: Iterable[str]) -> str:
    """Return a sentence on the key of the text, which is not among the names of a row or table."""
    found = sorted(str(name)[:_NAME_CHARACTERS] for name in names)
    shown = ", ".join(found[:_NAMES]) + (f" and {len(found) - _NAMES} more" if len(found) > _NAMES else "")
    return f"no {text_key!r} among the keys: {shown or 'none'}"


def unusable(text_key: str, names: list[str]) -> str:
    """Return a sentence on why a table with columns of these names has no text; empty where it has one."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    if twice:
        return f"two columns have the name {twice[0]!r}; rename one"
    return "" if text_key in names else lacks(text_key, names)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _repaired(text: str) -> str:
    r"""Join pairs of surrogates and replace lone ones (JSON's `\ud800`): Arrow takes valid Unicode only."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _extra(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other fields as plain JSON; `{"dropped": true}` where they are too large to keep."""
    if not fields:
        return {}
    try:
        plain = _plain(fields)
        if len(json.dumps(plain)) <= _EXTRA_BYTES:
            return dict(plain)
    except (RecursionError, ValueError):
        pass
    return {"dropped": True}


def _plain(value: Any) -> Any:
    """Return the value in a form that every JSON reader accepts: no NaN, 65-bit integer or lone surrogate."""
    if isinstance(value, Mapping):
        return {_repaired(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return _repaired(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < _SAFE_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)[:1000]


def integer_of(digits: str) -> Any:
    """Return an integer; one of thousands of digits, which Python refuses and no column holds, stays text."""
    return int(digits) if len(digits) < 20 else digits
