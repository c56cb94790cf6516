"""Speed of reading WARC files on one core: ours and FastWARC over the same files, in turns.

    python -m benchmarks.warc [--crawl FILES] [--rounds 9] [--json FILE]

Without FILES, pages as in `benchmarks.clean`. `records` finds all records and copies their payloads. `pages` decodes
HTML pages to text, with FastWARC by our HTTP and charset rules; both must find the same offsets, URLs and texts.
FastWARC stops at damage. Figures are MB of content per CPU second; the ratio is the median of the rounds.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import figure, parser, print_figures, system_load, take_turns, write_json

from fastwarc import ArchiveIterator, WarcRecordType

from benchmarks.clean import prose, warc_record
from clozeline.pipeline.ingest.formats.http_message import content_type
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord
from clozeline.pipeline.ingest.readers.warc import Warc

TARGET = 0.3
Page = tuple[int, str | None, str]
"""Offset, URL and text."""


class _Bare(Warc):
    """Makes no text of a record."""

    def _make_item(self, fields: Mapping[str, str], payload: bytes, locator: int, kind: str, stored: int) -> Item:
        return Counted("note", fields["warc-type"])


def read(reader: type[Warc], path: Path) -> Iterator[Item]:
    """Yield the items of a file."""
    return reader(Warc.Options(), Limits()).read(path, 0, path.stat().st_size)


def our_pages(path: Path) -> Iterator[Page]:
    """Yield the pages that our reader finds."""
    items = (item for item in read(Warc, path) if isinstance(item, RawRecord))
    return ((item.locator, item.url, item.text) for item in items)


def their_pages(path: Path) -> Iterator[Page]:
    """Yield the pages that FastWARC finds, decoded as ours are."""
    ours = Warc(Warc.Options(), Limits())
    for record in ArchiveIterator(str(path), record_types=WarcRecordType.response, parse_http=False):
        media, charset = content_type(record.headers.get("Content-Type"))
        found = ours._decode_page(record.reader.read(), media, charset)
        if isinstance(found, tuple):
            yield record.stream_pos, record.headers.get("WARC-Target-URI"), found[0]


def their_bytes(path: Path) -> int:
    """Return the bytes of all records by FastWARC."""
    return sum(len(record.reader.read()) for record in ArchiveIterator(str(path), parse_http=False))


def drain(read_one: Callable[[Path], Any], paths: list[Path]) -> None:
    for path in paths:
        for _ in read_one(path):
            pass


def main() -> None:
    made = parser(__doc__, rounds=9)
    made.add_argument("--crawl", nargs="+", default=[], metavar="FILE", help="WARC files")
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(name) for name in options.crawl] or [Path(folder) / "crawl.warc.gz"]
        if not options.crawl:
            paths[0].write_bytes(b"".join(warc_record(text)[0] for text in prose(400, 7)))
        content = sum(map(their_bytes, paths))
        records = sum(1 for path in paths for _ in read(_Bare, path))
        for path in paths:
            if list(our_pages(path)) != list(their_pages(path)):
                raise SystemExit(f"{path}: the pages differ")
        works = {
            "records": (lambda: drain(lambda path: read(_Bare, path), paths), lambda: [*map(their_bytes, paths)]),
            "pages": (lambda: drain(our_pages, paths), lambda: drain(their_pages, paths)),
        }
        rows = []
        for case, (ours, theirs) in works.items():
            seconds = take_turns({"ours": ours, "FastWARC": theirs}, options.rounds)
            speed = {name: content / median(some) / 1e6 for name, some in seconds.items()}
            ratio = median(b / a for a, b in zip(seconds["ours"], seconds["FastWARC"], strict=True))
            row = figure(case, "MB/s", speed["ours"], speed["FastWARC"], "FastWARC", TARGET, holds=ratio >= TARGET)
            rows.append({**row, "ratio": ratio})
    print_figures(rows, ("case", "ours", "FastWARC", "ratio", "target", "holds"), "MB of content per CPU second")
    print(f"\n{records} records, {content / 1e6:.1f} MB; {system_load()}")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
