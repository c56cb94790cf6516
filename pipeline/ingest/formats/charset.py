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
_WRONG_SHARE_LIMIT: Final = 0.01
"""Largest accepted share of such characters in a text, or of NUL bytes in a file."""
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
_MULTIBYTE_MINIMUM: Final = 3
"""Smallest number of multi-byte characters that shows that bytes are UTF-8: with fewer, bytes of
another encoding may be valid UTF-8 by chance."""


def decode(
    body: bytes, declared: str | None = None, *, meta: bool = False
) -> tuple[str, int] | None:
    """Return the text and its flags, or None if no encoding fits.

    The order is: the byte order mark, the declared encoding, the encoding in `<meta>` or `<?xml?>`
    (with `meta`), UTF-8, the guess of a detector. Two rules differ from w3lib:

    - A page that names UTF-16 in ASCII letters is UTF-8 (HTML standard, 13.2.3.2).
    - Valid UTF-8 with several multi-byte characters is read as UTF-8, although another encoding is
      named, unless that is a multi-byte encoding that decodes the bytes without replacements.

    A guess, or a text with replaced characters, is rejected if more than 1 % of its characters show
    a wrong encoding.
    """
    mark_encoding, mark = read_bom(body)
    encoding = mark_encoding or find_encoding(declared)
    if encoding is None and meta:
        encoding = find_encoding(html_body_declared_encoding(body))
        encoding = "utf-8" if encoding in _UTF16.values() else encoding

    body = body[len(mark or b"") :]

    # None if the bytes are invalid in UTF-8, or in the encoding of the byte order mark
    try:
        valid_text = body.decode(mark_encoding or "utf-8")
    except UnicodeDecodeError:
        valid_text = None

    if valid_text is not None and (mark_encoding or encoding in (None, "utf-8")):
        return valid_text, 0
    if encoding is None or (encoding == "utf-8" and not mark_encoding):
        return _decode_by_guess(body)

    text = to_unicode(body, encoding)
    if mark_encoding:
        return _check_text(text, 0)
    is_replaced = "\ufffd" in text
    is_single_byte = len(bytes(range(0x80, 0x100)).decode(encoding, "replace")) == 0x80
    if (
        valid_text is not None
        and (is_replaced or is_single_byte)
        and sum(each > "\x7f" for each in valid_text) >= _MULTIBYTE_MINIMUM
    ):
        return valid_text, FLAG_DECODED_BY_GUESS

    if not is_replaced:
        return text, 0
    return _check_text(text, 0) or (
        _decode_by_guess(body) if valid_text is None else (valid_text, 0)
    )


def find_encoding(label: str | None) -> str | None:
    """Return Python's name of an encoding of the Encoding Standard, or None.

    UTF-16 without a byte order mark is little-endian.
    """
    name = resolve_encoding(label) if label else None
    if name not in _STANDARD_ENCODINGS:
        return None
    return "utf-16-le" if name == "utf-16" else name


def guess_encoding(body: bytes) -> str | None:
    """Return `utf-8` if most non-ASCII characters are valid, else what a detector guesses.

    None: binary data.
    """
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) - bad >= bad:
        return "utf-8"
    if body.count(b"\0") > _WRONG_SHARE_LIMIT * len(body):
        return None
    return find_encoding(detect_encoding(body)) or "utf-8"


def _decode_by_guess(body: bytes) -> tuple[str, int] | None:
    if (encoding := guess_encoding(body)) is None:
        return None
    flags = 0 if encoding == "utf-8" else FLAG_DECODED_BY_GUESS
    return _check_text(to_unicode(body, encoding), flags)


def _check_text(text: str, flags: int) -> tuple[str, int] | None:
    """Return a text and its flags, or None if too many characters show a wrong encoding."""
    if len(_WRONG_CHARACTERS.findall(text)) > _WRONG_SHARE_LIMIT * len(text):
        return None
    return text, flags | (FLAG_REPLACEMENTS if "\ufffd" in text else 0)


def detect_utf16(head: bytes) -> str | None:
    """Return the encoding of a UTF-16 byte order mark, or None."""
    return next((encoding for mark, encoding in _UTF16.items() if head.startswith(mark)), None)


def recode_utf16(pieces: Iterator[bytes | Damage]) -> Iterator[bytes | Damage]:
    """Yield the content as UTF-8 if it starts with a UTF-16 byte order mark, else unchanged.

    Bytes that are invalid UTF-16 become bytes that are invalid UTF-8, for a later step to find.
    """
    first = next(pieces, b"")
    encoding = None if isinstance(first, Damage) else detect_utf16(first)
    if encoding is None:
        yield first
        yield from pieces
        return

    make_decoder = codecs.getincrementaldecoder(encoding)
    decoder = make_decoder("surrogatepass")

    for piece in chain([first], pieces, [b""]):
        if isinstance(piece, Damage):
            decoder = make_decoder("surrogatepass")
            yield piece
            continue
        try:
            content = decoder.decode(piece, final=not piece).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a single byte or half a surrogate pair at the end
            content = b"\xff"
        if content:
            yield content
