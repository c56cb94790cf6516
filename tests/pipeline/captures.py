"""Captures built by hand, whole and broken, and readers run on them."""

import gzip
from collections import Counter

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord
from clozeline.pipeline.registries import READERS

SENTENCES = (
    "The river that runs through the town is wide and slow in the summer of every year. People "
    "walk along it with their dogs, and they talk about the weather and the price of bread. In the "
    "evening the lamps are lit, and one can hear music from the houses on the other side. Nobody "
    "knows when the old bridge was built, but it has been there for as long as anyone can tell. To "
    "the north of the bridge there are fields that belong to the farmers who sell milk in the "
    "market. "
)


def page(number, body=SENTENCES):
    """An HTML page that every default filter keeps; each number gives another text."""
    text = f"<p>This is the page with number {number}, and it is one of many.</p><p>{body}</p>"
    head = f"<!doctype html><html><head><title>Page {number}</title></head>"
    return f"{head}<body><main>{text}</main></body></html>".encode()


def http(body, *headers, status="200 OK", content_type="text/html; charset=utf-8"):
    """A response; `content_type` None leaves the header out."""
    lines = [
        f"HTTP/1.1 {status}",
        *headers,
        *([f"Content-Type: {content_type}"] if content_type else []),
    ]

    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def record(payload, url="http://example.org/", kind="response", **fields):
    """A WARC record.

    `fields` replace or add headers (underscores for hyphens), None leaves one out.
    """
    headers = {
        "WARC-Type": kind,
        "WARC-Record-ID": "<urn:uuid:00000000-0000-0000-0000-000000000001>",
        "WARC-Date": "2024-05-06T07:08:09Z",
        "WARC-Target-URI": url,
        "Content-Type": "application/http; msgtype=response"
        if kind == "response"
        else "text/plain",
        "Content-Length": str(len(payload)),
    }

    headers |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return b"WARC/1.0\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + payload + b"\r\n\r\n"


def responses(count):
    """So many records, each with another page."""
    return [record(http(page(number)), f"http://example.org/{number}") for number in range(count)]


def members(records):
    """One gzip member a record."""
    return b"".join(gzip.compress(item, mtime=0) for item in records)


def read(path, start=0, end=None, *, limits=None, **chosen):
    """All items of a range of a file; `name=` chooses the reader, which is `warc` otherwise."""
    reader = READERS.resolve({"name": "warc", **chosen}).build(limits or InputLimits())
    return read_range(reader, path, start, path.stat().st_size if end is None else end)


def read_range(reader, path, start, end):
    return list(reader.read(path, start, end))


def texts(items):
    return [item.text for item in items if isinstance(item, RawRecord)]


def counted(items):
    return dict(Counter(item.reason for item in items if isinstance(item, SkippedRecord)))
