"""Bytes of a page to text: which character encoding, and how sure we are."""

from __future__ import annotations

import codecs
import re
from typing import Final

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from pipeline.documents.document import FLAG_DECODED_BY_GUESS, FLAG_REPLACEMENTS

__all__ = ["decode"]

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META: Final = re.compile(rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_META_BYTES: Final = 1024
_REPLACED_SHARE: Final = 0.01


def decode(body: bytes, declared: str | None = None, *, meta: bool = False) -> tuple[str, int] | None:
    """Return the text and its flags, or None where no encoding fits.

    Tried in order: byte order mark, the declared charset, `<meta>` in the first 1,024 bytes (with `meta`), UTF-8.
    Where none decodes every byte: UTF-8 with up to 1 % replaced characters, if most of what is not ASCII is valid;
    else what a detector guesses.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return _lenient(body[len(mark) :], encoding, 0)
    named = [declared] if declared else []
    if meta and (found := _META.search(body[:_META_BYTES])):
        named.append(found[1].decode("ascii"))
    known = [map_encoding_to_html5(name, fallback_utf8=False) for name in named]
    for encoding in dict.fromkeys([*(name for name in known if name), "utf-8"]):
        try:
            return body.decode(encoding), 0
        except (UnicodeDecodeError, LookupError):
            continue
    return _guess(body)


def _guess(body: bytes) -> tuple[str, int] | None:
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(map(len, re.findall("[^\x00-\x7f]+", text))) - bad
    if good >= bad:
        return (text, FLAG_REPLACEMENTS) if bad <= _REPLACED_SHARE * len(text) else None
    encoding = str(detect_encoding(body))
    binary = body.count(b"\0") > _REPLACED_SHARE * len(body)
    return None if binary or encoding == "utf-8" else _lenient(body, encoding, FLAG_DECODED_BY_GUESS)


def _lenient(body: bytes, encoding: str, flags: int) -> tuple[str, int] | None:
    try:
        text = body.decode(encoding, "replace")
    except LookupError:
        return None
    bad = text.count("\ufffd")
    if bad > _REPLACED_SHARE * len(text):
        return None
    return text, flags | (FLAG_REPLACEMENTS if bad else 0)
