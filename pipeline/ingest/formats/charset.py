"""Decode the bytes of a page: detect the character encoding and flag doubtful results."""

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
    """Return the text and its flags, or None if no encoding fits.

    Try the byte order mark, the declared charset, `<meta>` in the first 1,024 bytes (with `meta`) and UTF-8. If none
    decodes every byte: UTF-8 with up to 1 % replaced characters, if most non-ASCII characters are valid; else the
    encoding that a detector guesses.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return _decode_leniently(body[len(mark) :], encoding, 0)
    declarations = [declared] if declared else []
    if meta and (match := _META.search(body[:_META_BYTES])):
        declarations.append(match[1].decode("ascii"))
    known = [map_encoding_to_html5(name, fallback_utf8=False) for name in declarations]
    for encoding in dict.fromkeys([*(name for name in known if name), "utf-8"]):
        try:
            return body.decode(encoding), 0
        except (UnicodeDecodeError, LookupError):
            continue
    # UTF-8 with replaced characters, if at least half of the non-ASCII characters are valid
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    if good >= bad:
        return (text, FLAG_REPLACEMENTS) if bad <= _REPLACED_SHARE * len(text) else None
    # guess, unless it is binary
    encoding = str(detect_encoding(body))
    if encoding == "utf-8" or body.count(b"\0") > _REPLACED_SHARE * len(body):
        return None
    return _decode_leniently(body, encoding, FLAG_DECODED_BY_GUESS)


def _decode_leniently(body: bytes, encoding: str, flags: int) -> tuple[str, int] | None:
    try:
        text = body.decode(encoding, "replace")
    except LookupError:
        return None
    bad = text.count("\ufffd")
    if bad > _REPLACED_SHARE * len(text):
        return None
    return text, flags | (FLAG_REPLACEMENTS if bad else 0)


def detect_utf16(head: bytes) -> str | None:
    """Return the encoding of a UTF-16 byte order mark, or None."""
    return next((encoding for mark, encoding in _BOMS[1:] if head.startswith(mark)), None)


def recode_utf16(pieces: Iterator[bytes | Damage], account: Account) -> Iterator[bytes | Damage]:
    """Yield the content as UTF-8 if it starts with a UTF-16 byte order mark, else unchanged.

    `account` counts the UTF-8 form. Invalid UTF-16 becomes invalid UTF-8.
    """
    head: list[bytes | Damage] = []
    start = b""
    for piece in pieces:
        head.append(piece)
        if isinstance(piece, Damage) or len(start := start + piece) > 1:
            break
    encoding = detect_utf16(start)
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
        try:
            content = decoder.decode(piece, final=not piece).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # an odd byte or half a surrogate pair at the end
            content = b"\xff"
        account.content += len(content) - len(piece)
        if content:
            yield content
