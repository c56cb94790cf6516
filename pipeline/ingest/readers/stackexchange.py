"""Read `Posts.xml` of Stack Exchange's data dumps: each question or answer is a document."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Final

from lxml import etree

from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
    decompress_file,
)
from clozeline.pipeline.ingest.readers import NO_RECORDS, Item, RawRecord, Reader, SkippedRecord

_START: Final = re.compile(rb"<row\b")
_ROW: Final = re.compile(rb"""<row\b(?:[^<>"']++|"[^"<]*"|'[^'<]*')*+>""")
# control characters, which XML forbids and old dumps have
_CONTROLS: Final = re.compile(
    rb"&#(?:x0*(?:[0-8bcefBCEF]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2[0-9]|3[01]));"
)
_PARSER: Final = etree.XMLParser(
    resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True
)
_TAIL_BYTES: Final = 64  # bytes that may hold the start of a row, or the end of the file
_POST_TYPES: Final = {"1": "question", "2": "answer"}
_EXTRA_FIELDS: Final = {
    "id": "Id",
    "parent": "ParentId",
    "title": "Title",
    "license": "ContentLicense",
}
_SCORE: Final = re.compile(r"-?[0-9]{1,18}")
_TAGS: Final = re.compile(r"[^<>|]+")


class StackexchangeReader(Reader):
    """Reads the rows one by one; a damaged row affects no other.

    Posts of other types, such as wikis, are ignored. The HTML of a post, below the title of a
    question, is extracted like a page. `extra` holds `id`, `type`, `parent`, `score`, `tags`,
    `title` and `license`. No entity is resolved.

    """

    VERSION = 1
    start = rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<posts\b"
    reasons = (*DAMAGE_REASONS, "bad_xml", "too_large")

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        ahead = b""
        offset = 0
        has_rows = False
        damaged = False

        for piece in recode_utf16(decompress_file(path, self._limits)):
            if isinstance(piece, Damage):
                if _ROW.match(ahead):
                    yield self._make_item(ahead, offset)
                yield SkippedRecord.from_damage(piece, offset)
                offset += len(ahead)
                ahead = b""
                damaged = True
                continue

            ahead += piece
            # all rows but the last one are complete
            starts = [match.start() for match in _START.finditer(ahead)]
            has_rows = has_rows or bool(starts)
            for first, following in pairwise(starts):
                yield self._make_item(ahead[first:following], offset + first)
            rest = starts[-1] if starts else max(0, len(ahead) - _TAIL_BYTES)
            ahead = ahead[rest:]
            offset = offset + rest

            if len(ahead) > self._limits.record_bytes:
                yield SkippedRecord("malformed", "too_large", offset)
                offset += len(ahead)
                ahead = b""

        if _START.match(ahead):
            yield self._make_item(ahead, offset)
        elif not has_rows and not damaged:
            is_empty = b"</posts>" in ahead or b"<posts/>" in ahead
            yield (
                NO_RECORDS
                if is_empty
                else SkippedRecord("malformed", "bad_xml", detail="expected rows of <posts>")
            )

    def _make_item(self, row: bytes, offset: int) -> Item:
        if len(row) > self._limits.record_bytes:
            return SkippedRecord("malformed", "too_large", offset)
        element = _ROW.match(row)
        start_tag = _CONTROLS.sub(b"", element[0].rstrip(b"/>")) if element else b""

        try:
            fields: Mapping[str, str] = etree.fromstring(start_tag + b"/>", _PARSER).attrib
        except (etree.XMLSyntaxError, ValueError):
            return SkippedRecord("malformed", "bad_xml", offset)

        type_id = fields.get("PostTypeId", "")
        if type_id not in _POST_TYPES:
            return SkippedRecord("ignored", f"post_type_{type_id[:10]}")

        title = f"<h1>{escape(fields['Title'])}</h1>" if "Title" in fields else ""
        page = f"<html><body><main>{title}{fields.get('Body', '')}</main></body></html>"
        extra: dict[str, object] = {
            name: fields[key] for name, key in _EXTRA_FIELDS.items() if fields.get(key)
        }
        extra |= {"type": _POST_TYPES[type_id], "tags": _TAGS.findall(fields.get("Tags", ""))}
        if _SCORE.fullmatch(fields.get("Score", "")):
            extra["score"] = int(fields["Score"])
        date = parse_date(fields.get("CreationDate"))
        return RawRecord(
            offset, "stackexchange", len(row), page, is_markup=True, date=date, extra=extra
        )
