"""File types that no reader reads: which ones are skipped, and which tool converts the others."""

import re
from typing import Final

COMPRESSIONS: Final = (".gz", ".zst", ".lz4", ".bz2", ".xz")
"""Suffixes of compressed files, behind the suffix of the content."""
STYLES_AND_SCRIPTS: Final = (".css", ".scss", ".less", ".js", ".mjs", ".map", ".wasm")
_TEXTLESS: Final = frozenset(
    {
        *STYLES_AND_SCRIPTS,
        # pictures
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".bmp",
        ".ico",
        ".svg",
        ".webp",
        ".avif",
        ".tif",
        ".tiff",
        ".heic",
        ".psd",
        # fonts
        ".woff",
        ".woff2",
        ".ttf",
        ".otf",
        ".eot",
        # sound and film
        ".mp3",
        ".wav",
        ".flac",
        ".ogg",
        ".m4a",
        ".mp4",
        ".m4v",
        ".mkv",
        ".mov",
        ".avi",
        ".webm",
    }
)
"""Suffixes of files that websites have next to their pages."""
_MARKERS: Final = re.compile(
    r"_(SUCCESS|(committed|started)_.*|(common_)?metadata|temporary|delta_log)|.*\.crc"
)
"""Names that Spark, Hadoop, Databricks and Delta write next to the files of a table."""
MARKER: Final = "marker"
"""Type of files that are never data, whatever reader is named."""

_PANDOC: Final = "convert it with `pandoc -t plain`"
_TOOLS_BY_SUFFIX: Final = {
    ".pdf": "convert it with `pdftotext`",
    ".ps": "convert it with `ps2ascii`",
    ".djvu": "convert it with `djvutxt`",
    **dict.fromkeys((".tex", ".rtf", ".docx", ".odt", ".epub", ".fb2", ".org"), _PANDOC),
    ".doc": "convert it with `libreoffice --convert-to txt`",
    **dict.fromkeys((".xls", ".xlsx", ".ods"), "export it as CSV"),
    **dict.fromkeys((".sql", ".sqlite", ".db"), "export its tables from the database as CSV"),
    **dict.fromkeys(
        (".po", ".pot", ".xlf", ".xliff", ".tmx"),
        "convert it to a table with the Translate Toolkit (`po2csv`, `xliff2po`, `tmx2po`)",
    ),
    **dict.fromkeys(
        (".srt", ".vtt", ".ass", ".ssa", ".sub"), "extract the text without times with pysubs2"
    ),
    **dict.fromkeys((".7z", ".rar", ".cpio", ".jar", ".tar", ".tgz", ".zip"), "unpack it"),
    ".pst": "convert it to mailboxes with `readpst`",
    ".msg": "convert it to `.eml` with `msgconvert`",
    ".xml": "convert it to JSON lines; for a dump of MediaWiki set `reader: mediawiki`",
}
_TOOLS_BY_CONTENT: Final = (
    (re.compile(rb"%PDF-"), _TOOLS_BY_SUFFIX[".pdf"]),
    (re.compile(rb"%!PS"), _TOOLS_BY_SUFFIX[".ps"]),
    (re.compile(rb"\{\\rtf"), _PANDOC),
    (
        re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<mediawiki\b"),
        "set `reader: mediawiki`",
    ),
    (
        re.compile(rb"PK\x03\x04"),
        "it is a zip archive with another suffix: convert or rename it",
    ),
)


def suffix_of(name: str) -> str:
    """Return the lower-case suffix of a file name, ignoring the suffix of a compression."""
    stem, suffix = _split(name.lower())
    return _split(stem)[1] if suffix in COMPRESSIONS else suffix


def _split(name: str) -> tuple[str, str]:
    """Return stem and suffix as `PurePosixPath` does, in a tenth of the time."""
    stem, _, suffix = name.rpartition(".")
    return (stem, f".{suffix}") if stem and suffix else (name, "")


def reason_to_skip(path: str) -> str:
    """Return why a file is skipped by its path below an input; "" if it is read.

    The reason is the suffix, or `marker`.
    """
    *folders, name = path.split("/")
    if any(map(_MARKERS.fullmatch, (*folders, name))):
        return MARKER
    suffix = suffix_of(name)
    return suffix if suffix in _TEXTLESS else ""


def find_tool(name: str, head: bytes) -> str:
    """Return how to convert a file with this name and these first bytes; "" if unknown."""
    by_content = (tool for pattern, tool in _TOOLS_BY_CONTENT if pattern.match(head))
    return _TOOLS_BY_SUFFIX.get(suffix_of(name)) or next(by_content, "")
