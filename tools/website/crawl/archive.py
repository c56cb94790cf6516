"""Store a crawl in a WARC 1.1 file, one gzip member per record, which also is the complete state of the crawl.

While the crawl runs, the file is `NAME.partial`; it is renamed when the crawl is complete. An exchange is a request
record followed by its response record. A URL without a stored response has a `metadata` record with the reason, so that
a resumed crawl does not request it again.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import cannot_write, lock, sync
from clozeline.tools.website.crawl.fetch import Exchange, request_target

_FIELDS: Final = "application/warc-fields"
_RENAMED_HEADERS: Final = {"transfer-encoding": "X-Crawl-Transfer-Encoding"}
"""New header names: the stored body is not chunked any more, so no header may claim so."""


class Archive:
    """The WARC of one crawl, open for appending; use as a context manager.

    A file that was started with other settings, or that another crawl is writing, is a ConfigurationError.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.cut = 0
        self._positions: dict[str, tuple[int, int]] = {}
        try:
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self.partial.open("a+b")
        except OSError as error:
            raise StorageError(cannot_write(self.partial, error)) from error
        try:
            if not lock(self._file):
                raise ConfigurationError(f"{self.partial}: another crawl is writing it; choose another --output")
            self._writer = WARCWriter(self._file, gzip=True, warc_version="1.1")
            self._load_or_start(settings)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        """Close the file; a failed write was reported already, and its torn end is cut off at the next start."""
        with suppress(OSError):
            self._file.close()

    def __contains__(self, url: str) -> bool:
        return url in self._positions

    def __len__(self) -> int:
        return len(self._positions)

    def read(self, url: str) -> Exchange | str:
        """Return the exchange of a URL, or the reason why there is none."""
        offset, length = self._positions[url]
        self._file.seek(offset)
        record = _parse_record(self._file.read(length), self.partial, offset)
        body, header = record.raw_stream.read(), record.rec_headers.get_header
        if record.rec_type == "metadata":
            return str(body.decode().partition("outcome: ")[2].strip())
        status, _, reason = record.http_headers.statusline.partition(" ")
        return Exchange(
            url=header("WARC-Target-URI"), address=header("WARC-IP-Address") or "", request=(), status=int(status),
            reason=reason, headers=tuple(record.http_headers.headers), body=body,
            truncated=header("WARC-Truncated") is not None,
        )  # fmt: skip

    def append(self, exchange: Exchange) -> None:
        """Store an exchange as two records of the same date, request first, so that a response implies both."""
        date = self._writer.curr_warc_date()
        common = {"WARC-Date": date, "WARC-IP-Address": exchange.address}
        extra = {"WARC-Truncated": "length"} if exchange.truncated else {}
        headers = [(_RENAMED_HEADERS.get(name.lower(), name), value) for name, value in exchange.headers]
        status = StatusAndHeaders(f"{exchange.status} {exchange.reason}".strip(), headers, protocol="HTTP/1.1")
        response = self._writer.create_warc_record(
            exchange.url, "response", payload=io.BytesIO(exchange.body), length=len(exchange.body),
            http_headers=status, warc_headers_dict=common | extra,
        )  # fmt: skip
        line, asked = f"GET {request_target(exchange.url)} HTTP/1.1", list(exchange.request)
        request = self._writer.create_warc_record(
            exchange.url, "request", http_headers=StatusAndHeaders(line, asked, is_http_request=True),
            warc_headers_dict=common | {"WARC-Concurrent-To": response.rec_headers.get_header("WARC-Record-ID")},
        )  # fmt: skip
        self._write(request)
        self._positions[exchange.url] = self._write(response)

    def append_outcome(self, url: str, reason: str) -> None:
        """Store the reason why a URL has no response record."""
        self._positions[url] = self._write(self._fields_record("metadata", {"outcome": reason}, url))

    def publish(self) -> None:
        """Sync everything to disk, then give the file its final name."""
        try:
            sync(self.partial)
            self.partial.replace(self.path)
            sync(self.path.parent)
        except OSError as error:
            raise StorageError(cannot_write(self.path, error)) from error

    def _load_or_start(self, settings: dict[str, Any]) -> None:
        """Read the records of an interrupted crawl and cut its torn end, or start a new file."""
        end = 0
        for offset, data in _gzip_members(self._file):
            record = _parse_record(data, self.partial, offset)
            recorded = _settings_of(record) if offset == 0 else settings
            if differing := sorted(key for key in settings if recorded.get(key) != settings[key]):
                key = differing[0]
                raise ConfigurationError(
                    f"{self.partial}: started with {key} = {recorded.get(key)!r}, now {settings[key]!r}: "
                    "repeat the first command to resume, or choose another --output"
                )
            if record.rec_type in ("response", "metadata"):
                self._positions[record.rec_headers.get_header("WARC-Target-URI")] = (offset, len(data))
            if record.rec_type != "request":
                end = offset + len(data)
        self.cut = self.partial.stat().st_size - end
        self._file.truncate(end)
        if end == 0:
            info = {
                "software": "clozeline clozeline crawl-site",
                "format": "WARC file version 1.1",
                "robots": "RFC 9309",
                "http-header-user-agent": str(settings["agent"]),
                "crawl-settings": json.dumps(settings, sort_keys=True),
            }
            self._write(self._fields_record("warcinfo", info))

    def _fields_record(self, kind: str, fields: dict[str, str], url: str | None = None) -> ArcWarcRecord:
        body = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()
        headers = {"WARC-Filename": self.path.name} if kind == "warcinfo" else {}
        return self._writer.create_warc_record(
            url, kind, payload=io.BytesIO(body), length=len(body), warc_content_type=_FIELDS, warc_headers_dict=headers
        )

    def _write(self, record: ArcWarcRecord) -> tuple[int, int]:
        offset = self._file.seek(0, os.SEEK_END)
        try:
            self._writer.write_record(record)
            self._file.flush()
        except OSError as error:
            raise StorageError(cannot_write(self.partial, error)) from error
        return offset, self._file.tell() - offset


def archive_settings(path: Path) -> dict[str, Any]:
    """Return the settings of the crawl in a finished file."""
    with path.open("rb") as file:
        for offset, data in _gzip_members(file):
            return _settings_of(_parse_record(data, path, offset))
    raise IntegrityError(f"{path}: expected a WARC written by this crawler, got no record; remove it to crawl again")


def _settings_of(record: ArcWarcRecord) -> dict[str, Any]:
    for line in record.content_stream().read().decode(errors="replace").splitlines():
        if line.startswith("crawl-settings: "):
            return dict(json.loads(line.removeprefix("crawl-settings: ")))
    return {}


def _gzip_members(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield offset and compressed bytes of each complete gzip member, up to the first torn or damaged one."""
    offset = 0
    while True:
        file.seek(offset)
        inflate = zlib.decompressobj(wbits=31)
        data = bytearray()
        try:
            while not inflate.eof and (piece := file.read(8192)):
                data += piece
                inflate.decompress(piece)
        except zlib.error:
            return
        if not inflate.eof:
            return
        member = bytes(data[: len(data) - len(inflate.unused_data)])
        yield offset, member
        offset += len(member)


def _parse_record(member: bytes, path: Path, offset: int) -> ArcWarcRecord:
    for record in ArchiveIterator(io.BytesIO(member)):
        return record
    raise IntegrityError(f"{path}: no WARC record at byte {offset}; remove the file to crawl again")
