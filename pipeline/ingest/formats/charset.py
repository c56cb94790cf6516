"""Bytes of a page to text: which character encoding, and how sure we are."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from clozeline.pipeline.ingest.documents.document import FLAG_DECODED_BY_GUESS, FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.decompression import Damage

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


def utf16_of(head: bytes) -> str | None:
    """Return the encoding that a byte order mark of UTF-16 announces, or None."""
    return next((encoding for mark, encoding in _BOMS[1:] if head.startswith(mark)), None)


def as_utf8(pieces: Iterator[bytes | Damage], account: Account) -> Iterator[bytes | Damage]:
    """Yield the content in UTF-8 where it begins with a byte order mark of UTF-16, else as it is.

    The content that `account` counts is the UTF-8 form. What is not valid UTF-16 is not valid UTF-8 either.
    """
    head: list[bytes | Damage] = []
    start = b""
    for piece in pieces:
        head.append(piece)
        if isinstance(piece, Damage) or len(start := start + piece) > 1:
            break
    encoding = utf16_of(start)
    if encoding is None:
        yield from chain(head, pieces)
        return
    make = codecs.getincrementaldecoder(encoding)
    decoder = make("surrogatepass")
    for piece in chain(head, pieces, [b""]):
        if isinstance(piece, Damage):
            decoder = make("surrogatepass")
            yield piece
            continue
        content = _utf8(decoder, piece)
        account.content += len(content) - len(piece)
        if content:
            yield content


def _utf8(decoder: codecs.IncrementalDecoder, piece: bytes) -> bytes:
    try:
        return decoder.decode(piece, final=not piece).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # an odd byte at the end, or half a pair there
        return b"\xff"
