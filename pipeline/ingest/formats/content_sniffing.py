"""Detect the type of a body from its first bytes, because servers often declare a wrong type or none."""

import re
from typing import Final

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})

_MAGICS: Final = (
    b"%PDF-", b"\x89PNG\r\n", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"\x7fELF", b"MZ\x90",
    b"OggS", b"ID3", b"RIFF", b"BM\x36", b"II*\0", b"MM\0*", b"\x00\x00\x01\x00", b"wOFF", b"wOF2",
    b"Rar!", b"7z\xbc\xaf",
)  # fmt: skip
_TAG: Final = re.compile(
    rb"<(?:!doctype\s+html|!--|html|head|body|title|meta|link|script|style|div|p|h[1-6]|table|a|br|span|ul|ol|font|b|i)"
    rb"[\s>/!-]",
    re.IGNORECASE,
)
_JSON: Final = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[\[{"\]\d])')


def looks_like_html(body: bytes) -> bool:
    """Return whether the body starts like HTML; only used if no type is declared."""
    return _TAG.match(body.removeprefix(b"\xef\xbb\xbf")[:1024].lstrip()) is not None


def contradicts_html(body: bytes) -> bool:
    """Return whether a body declared as HTML is clearly an image, an archive, a PDF or JSON."""
    return body.startswith(_MAGICS) or (_JSON.match(body[:256]) is not None and body.rstrip()[-1:] in b"]}")
