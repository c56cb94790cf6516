"""Records that are all of a small gzip member are read at once; the oracle is the general way, which searches."""

from __future__ import annotations

import gzip
import random
from itertools import pairwise
from pathlib import Path

import pytest

from clozeline.pipeline.ingest.formats import input_file, record_stream
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import RawRecord
from clozeline.pipeline.ingest.readers.warc import Warc
from tests.pipeline.captures import counted, http, members, page, read, record, responses, texts

ARC = b"http://example.org/ 127.0.0.1 20080430204826 text/html 8\n<p>words\n"


def make_record(draw: random.Random) -> bytes:
    """Return a record, now and then with a fault."""
    kind = draw.choice(["response"] * 4 + ["request", "conversion", "revisit"])
    size = draw.choice([0, 9, 200, 3000]) if draw.random() < 0.85 else draw.choice([30_000, 70_000])
    few = min(size, 3000)  # to search what is damaged byte by byte takes long
    text = draw.choice([draw.randbytes(few), b"word\r\n\r\nWARC/1.0\r\n" * (few // 18), b"<p>" + b"a b " * (size // 4)])
    payload = http(text) if kind == "response" else text
    length = len(payload)
    faults: list[dict[str, str | None]] = [
        {"Content_Length": str(max(0, length + draw.choice([-60, -4, -2, -1, 1, 4, 9000])))},
        {"Content_Length": draw.choice([None, "", "x", f"0{length}", f"{length}\r\n "])},
        {"WARC_Type": draw.choice([None, "\r\n\tresponse", "Response"])},
        {"X_Text": draw.choice(["a\rb", "\r\n WARC-Type: request", "y" * 9000])},
    ]
    made = record(payload, kind=kind, **(draw.choice(faults) if draw.random() < 0.3 else {}))
    match draw.randrange(24):
        case 0:
            return made.replace(b"\n", b"\r\n")
        case 1:
            return made.removesuffix(draw.choice([b"\r\n\r\n", b"\r\n", b"\n"]))
        case 2:
            return made + draw.choice([b"\r\n", b"\r\n\r\n", b"x", b"junk\r\n\r\n"])
        case 3:
            return draw.choice([b"WARC/2.0", b"warc/1.0", b"WARC/1.1 "]) + made.removeprefix(b"WARC/1.0")
        case 4:
            return ARC
        case 5:
            return ARC + made
        case 6:  # the length is that of what stands before the last four bytes, which are no separator
            return record(payload + b"text", kind=kind, Content_Length=str(length)).removesuffix(b"\r\n\r\n")
    return made


def make_file(draw: random.Random) -> bytes:
    """Return gzip members with a record each, several, none or a part of one; some are damaged."""
    content = b""
    for _ in range(draw.randrange(1, 9)):
        parts = [make_record(draw)]
        match draw.randrange(12):
            case 0:
                parts = [parts[0] + make_record(draw)]
            case 1:
                at = draw.randrange(len(parts[0]) + 1)
                parts = [parts[0][:at], parts[0][at:]]
            case 2:
                parts.append(draw.choice([b"", b"\r\n", b"\r\n\r\n", b"junk\r\n"]))
            case 3:
                content += draw.choice([bytes(20), b"garbage\r\n", b"\x1f\x8b\x08"])
        made = bytearray().join(gzip.compress(part, draw.choice([0, 1, 9]), mtime=0) for part in parts)
        if draw.random() < 0.1:
            made[-draw.randrange(1, 9)] ^= 1  # in the checksum or the size
        content += made
    damaged = bytearray(content)
    for _ in range(draw.choice([0, 0, 1, 2])):
        at = draw.randrange(len(damaged))
        match draw.randrange(3):
            case 0:
                damaged[at] ^= 1 << draw.randrange(8)
            case 1:
                del damaged[max(1, at) :]
            case 2:
                damaged[at:at] = draw.randbytes(draw.choice([1, 40]))
    return bytes(damaged)


def read_all(path: Path, ranges: list[tuple[int, int]], limits: Limits) -> list[str]:
    """Return everything known of the items of each range, and its account; fields that `==` ignores count too."""
    found = []
    for start, end in ranges:
        account = Account()
        items = list(Warc(Warc.Options(), limits).read(path, start, end, account))
        found += [*map(repr, items), repr(account)]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_records_read_at_once_are_those_of_the_general_way(tmp_path: Path, monkeypatch, seed: int) -> None:
    draw = random.Random(seed)
    path = tmp_path / "a.warc.gz"
    monkeypatch.setattr(record_stream, "_FIRST_BYTES", draw.choice([1 << 14, 1 << 14, 300]))
    monkeypatch.setattr(input_file, "_READ_AHEAD", draw.choice([1 << 17, 1000]))
    for _ in range(4):
        path.write_bytes(make_file(draw))
        size = path.stat().st_size
        cuts = [0, *sorted(draw.randrange(size + 1) for _ in range(2)), size]
        limits = Limits(record_bytes=draw.choice([1 << 26, 1 << 26, 2000]))
        at_once = read_all(path, [(0, size), *pairwise(cuts)], limits)
        with monkeypatch.context() as patch:
            patch.setattr(record_stream, "decode_first_piece", lambda *_: None)
            patch.setattr(record_stream._GzipRecordStream, "ends_member", lambda *_: False)
            assert at_once == read_all(path, [(0, size), *pairwise(cuts)], limits)


@pytest.fixture
def read_at_once(monkeypatch) -> list[int]:
    """Offsets of the members that are read at once."""
    found: list[int] = []
    peek = record_stream._GzipRecordStream.peek_member

    def noting(stream: record_stream.RecordStream) -> bytes:
        content = peek(stream)
        if content and (not found or found[-1] != stream.next_member):
            found.append(stream.next_member)
        return content

    monkeypatch.setattr(record_stream._GzipRecordStream, "peek_member", noting)
    return found


def test_what_is_odd_or_large_costs_no_time_after_it(tmp_path: Path, read_at_once: list[int]) -> None:
    """After a record that is read in the general way, which looks 8 KiB ahead, the next ones are again read at once."""
    pages = [page(number, "x" * 9000) for number in range(12)]
    pages[2] = page(2, random.Random(1).randbytes(200_000).hex())
    records = [record(http(one)) for one in pages]
    records[5] = record(http(pages[5]), Content_Length="9")
    records[8] = records[8].removesuffix(b"\r\n")
    path = tmp_path / "a.warc.gz"
    path.write_bytes(members(records))
    starts = [len(members(records[:index])) for index in range(12)]
    items = read(path)
    assert [item.locator for item in items if isinstance(item, RawRecord)] == starts[:5] + starts[6:]
    assert counted(items) == {"bad_length": 1}
    assert [index for index, start in enumerate(starts) if start not in read_at_once] == [2, 6, 9]


def test_a_record_before_damage_has_its_own_length(tmp_path: Path) -> None:
    """Its member cannot be measured by the next one's offset, so that `length` is that of the content."""
    records = responses(3)
    parts = [gzip.compress(one, mtime=0) for one in records]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(parts[0] + parts[1] + b"garbage" + parts[2] + gzip.compress(b""))
    items = [item for item in read(path) if isinstance(item, RawRecord)]
    assert texts(items) == [page(number).decode() for number in range(3)]
    spans = [len(one) - 4 for one in records]
    assert [item.span for item in items] == spans
    assert [item.length for item in items] == [len(parts[0]), spans[1], len(parts[2]) + len(gzip.compress(b""))]
