"""Decode the bytes of a page or a text file.

w3lib finds the encoding; doubtful results are flagged or rejected.
"""

import codecs
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from resiliparse.parse.encoding import detect_encoding
from w3lib.encoding import html_body_declared_encoding, read_bom, resolve_encoding, to_unicode

from clozeline.pipeline.ingest.documents.document import FLAG_DECODED_BY_GUESS, FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.formats.decompression import Damage

_WRONG_CHARACTERS: Final = re.compile("[\x80-\x9f\ue000-\uf8ff\ufffd]")
"""Characters that show a wrong encoding: C1 controls, private use, replacement characters."""
_MOST_WRONG_SHARE: Final = 0.01
_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_STANDARD_ENCODINGS: Final = frozenset(
    map(
        resolve_encoding,
        """utf-8 ibm866 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-7
        iso-8859-8 iso-8859-10 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16 koi8-r koi8-u
        macintosh mac-cyrillic windows-874 windows-1250 windows-1251 windows-1252
        windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258 gbk
        gb18030 big5 euc-jp iso-2022-jp shift_jis euc-kr utf-16 utf-16be
        utf-16le""".split(),  # noqa: SIM905
    )
)
"""Encodings of the Encoding Standard. Python knows more, which yield garbage or take quadratic
time."""
_FEWEST_MULTIBYTE: Final = 3
"""Fewer multi-byte characters of valid UTF-8 may be a coincidence in another encoding."""


def decode(
    body: bytes, declared: str | None = None, *, meta: bool = False
) -> tuple[str, int] | None:
    """Return the text and its flags, or None if no encoding fits.

    The order is: the byte order mark, the declared encoding, the encoding in `<meta>` or `<?xml?>`
    (with `meta`), UTF-8, the guess of a detector. Two rules differ from w3lib:

    - A page that names UTF-16 in ASCII letters is UTF-8 (HTML standard, 13.2.3.2).
    - Valid UTF-8 outweighs the name of another encoding, except a multi-byte encoding that fits.

    A guess, or a text with replaced characters, is rejected if more than 1 % of its characters show
    a wrong encoding.
    """
    marked, mark = read_bom(body)
    named = marked or find_encoding(declared)
    if named is None and meta:
        named = find_encoding(html_body_declared_encoding(body))
        named = "utf-8" if named in _UTF16.values() else named

    # valid UTF-8, or valid in the encoding of the byte order mark
    body = body[len(mark or b"") :]

    try:
        valid = body.decode(marked or "utf-8")
    except UnicodeDecodeError:
        valid = None

    if valid is not None and (marked or named in (None, "utf-8")):
        return valid, 0
    if named is None or (named == "utf-8" and not marked):
        return _guess_encoding(body)

    text = to_unicode(body, named)
    if marked:
        return _check_text(text, 0)
    is_replaced = "\ufffd" in text
    is_single_byte = len(bytes(range(0x80, 0x100)).decode(named, "replace")) == 0x80
    if (
        valid is not None
        and (is_replaced or is_single_byte)
        and sum(each > "\x7f" for each in valid) >= _FEWEST_MULTIBYTE
    ):
        return valid, FLAG_DECODED_BY_GUESS

    if not is_replaced:
        return text, 0
    return _check_text(text, 0) or (_guess_encoding(body) if valid is None else (valid, 0))


def find_encoding(label: str | None) -> str | None:
    """Return Python's name of an encoding of the Encoding Standard, or None.

    UTF-16 without a byte order mark is little-endian.
    """
    name = resolve_encoding(label) if label else None
    if name not in _STANDARD_ENCODINGS:
        return None
    return "utf-16-le" if name == "utf-16" else name


def _guess_encoding(body: bytes) -> tuple[str, int] | None:
    """Decode as UTF-8 if most non-ASCII characters are valid, else as a detector guesses."""
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) - bad >= bad:
        return _check_text(text, 0)
    if body.count(b"\0") > _MOST_WRONG_SHARE * len(body):
        return None  # binary data
    return _check_text(
        to_unicode(body, resolve_encoding(detect_encoding(body)) or "utf-8"), FLAG_DECODED_BY_GUESS
    )


def _check_text(text: str, flags: int) -> tuple[str, int] | None:
    """Return a text and its flags, or None if too many characters show a wrong encoding."""
    if len(_WRONG_CHARACTERS.findall(text)) > _MOST_WRONG_SHARE * len(text):
        return None
    return text, flags | (FLAG_REPLACEMENTS if "\ufffd" in text else 0)


def detect_utf16(head: bytes) -> str | None:
    """Return the encoding of a UTF-16 byte order mark, or None."""
    return next((encoding for mark, encoding in _UTF16.items() if head.startswith(mark)), None)


def recode_utf16(pieces: Iterator[bytes | Damage]) -> Iterator[bytes | Damage]:
    """Yield the content as UTF-8 if it starts with a UTF-16 byte order mark, else unchanged.

    Invalid UTF-16 becomes invalid UTF-8.
    """
    first = next(pieces, b"")
    encoding = None if isinstance(first, Damage) else detect_utf16(first)
    if encoding is None:
        yield first
        yield from pieces
        return

    make = codecs.getincrementaldecoder(encoding)
    decoder = make("surrogatepass")

    for piece in chain([first], pieces, [b""]):
        if isinstance(piece, Damage):
            decoder = make("surrogatepass")
            yield piece
            continue
        try:
            content = decoder.decode(piece, final=not piece).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a single byte or half a surrogate pair at the end
            content = b"\xff"
        if content:
            yield content
