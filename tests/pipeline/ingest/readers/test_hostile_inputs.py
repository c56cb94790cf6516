"""Strings that others have made quadratic readers with, through every reader, at its door: a file of bytes."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clozeline.registry import names
from tests.pipeline.captures import http, read, record

UNITS = {
    "zeros": b"\0", "blanks": b" ", "tabs": b"\t", "carriage returns": b"\r", "line ends": b"\n", "both ends": b"\r\n",
    "quotes": b'"', "apostrophes": b"'", "backslashes": b"\\", "escaped quotes": b'\\"', "commas": b",",
    "quoted commas": b'"",', "open quotes": b'"a,', "colons": b":", "dots": b".", "digits": b"9", "signs": b"-",
    "open brackets": b"[", "closed brackets": b"]", "open braces": b"{", "closed braces": b"}", "objects": b"{}",
    "objects in lists": b"[{", "keys": b'{"a":', "pairs": b'"a":1,', "exponents": b"1e9", "escapes": b"\\u0000",
    "surrogates": b"\\ud800", "open tags": b"<", "closed tags": b">", "paragraphs": b"<p>", "divisions": b"<div>",
    "closing": b"</a>", "comments": b"<!--", "dashes": b"--!>", "declarations": b"<!", "instructions": b"<?",
    "sections": b"<![CDATA[", "scripts": b"<script>", "styles": b"<style>", "titles": b"<title>", "tables": b"<table>",
    "attributes": b"<a b=", "open values": b'<a b="', "attribute names": b"a=a ", "metas": b"<meta charset=",
    "charsets": b"charset   =", "entities": b"&", "amps": b"&amp;", "numbers": b"&#9", "templates": b"{{",
    "template ends": b"}}", "links": b"[[", "bold": b"'''''", "headings": b"==", "wiki tables": b"{|\n",
    "refs": b"<ref>",
    "continuation bytes": b"\x80", "lead bytes": b"\xe2", "four bytes": b"\xf0\x9f", "marks": "e\u0301".encode(),
    "direction": "\u202e".encode(), "words": b"word ", "sizes": b"1\r\na\r\n", "headers": b"a: b\r\n",
    "folded": b" a\r\n", "records": b"WARC/1.0\r\n\r\n", "encodings": b"gzip,", "deflated": gzip.compress(b"")[:10],
}  # fmt: skip

_WARC = {
    "body": lambda data: record(http(b"<html><body>" + data)),
    "head": lambda data: record(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + data),
    "status": lambda data: record(b"HTTP/1.1 " + data),
    "chunks": lambda data: record(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data),
    "encoding": lambda data: record(b"HTTP/1.1 200 OK\r\nContent-Encoding: " + data + b"\r\n\r\nbody"),
    "type": lambda data: record(b"HTTP/1.1 200 OK\r\nContent-Type: " + data + b"\r\n\r\nbody"),
    "record": lambda data: b"WARC/1.0\r\nWARC-Type: response\r\n" + data,
}
"""Parts of a WARC file that a page fills."""
DOORS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    **{name: (name, bytes) for name in names("clozeline.pipeline.ingest.readers") if name != "warc"},
    **{f"warc {part}": ("warc", fill) for part, fill in _WARC.items()},
    "jsonl text": ("jsonl", lambda data: json.dumps({"text": data.decode("latin-1")}).encode() + b"\n"),
    "jsonl value": ("jsonl", lambda data: b'{"text": ' + data),
    "csv field": ("csv", lambda data: b"text,b\n" + data),
    "csv quoted": ("csv", lambda data: b'text,b\n"' + data),
    "tsv field": ("tsv", lambda data: b"text\tb\n" + data),
    "html body": ("html", lambda data: b"<html><body><p>" + data),
}
_FACTOR = 10


def seconds(path: Path, reader: str, times: int) -> float:
    """CPU seconds to read a file, the best of some times."""
    found = []
    for _ in range(times):
        start = time.process_time()
        read(path, name=reader)
        found.append(time.process_time() - start)
    return min(found)


def is_slow(path: Path, door: str, data: bytes, size: int) -> bool:
    """Return whether ten times the bytes take more than 25 times as long: a quadratic reader needs a hundred times."""
    reader, fill = DOORS[door]
    for times in (1, 3):  # what looks slow once may have had a busy machine
        taken = []
        for length in (size, size * _FACTOR):
            path.write_bytes(fill(data * (length // len(data))))
            taken.append(seconds(path, reader, times))
        if taken[1] < 25 * max(taken[0], 0.001):
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_time_of_every_reader_grows_with_the_size(door: str, tmp_path: Path) -> None:
    assert [unit for unit, data in UNITS.items() if is_slow(tmp_path / "file", door, data, 30_000)] == []
