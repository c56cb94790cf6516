"""One stream of decompressed bytes, and the file offset of each of them, against members decompressed one by one."""

from __future__ import annotations

import gc
import gzip
import os
import random
from pathlib import Path

import pytest
import zstandard

from clozeline.pipeline.ingest.formats import decompression, record_stream
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.formats.record_stream import Position, find_record, open_record_stream


def begins(head: bytes) -> bool:
    return head.startswith(b"REC ")


def written(path: Path, seed: int = 1, count: int = 12) -> tuple[list[bytes], list[int]]:
    """Gzip members of records, some of them empty; contents and offsets."""
    draw = random.Random(seed)
    contents = [b"" if number % 5 == 3 else b"REC " + draw.randbytes(draw.randrange(3000)) for number in range(count)]
    members = [gzip.compress(content, mtime=0) for content in contents]
    path.write_bytes(b"".join(members))
    return contents, [sum(map(len, members[:number])) for number in range(count + 1)]


def test_each_byte_knows_its_member_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "SMALL_MEMBER", 700)
    monkeypatch.setattr(decompression, "_OUTPUT", 900)
    path = tmp_path / "a.gz"
    contents, offsets = written(path)
    stream = open_record_stream(path, 0, Limits(), begins, Account())
    places = [
        Position(member, inner)
        for member, content in zip(offsets, contents, strict=False)
        for inner in range(len(content))
    ]
    whole, at, draw = b"".join(contents), 0, random.Random(2)
    while stream.ensure(1):
        ahead = draw.randrange(2500)
        stream.ensure(ahead)
        offset = draw.randrange(len(stream.ahead))
        assert stream.position(offset) == places[at + offset]
        assert stream.locate(stream.position(offset)) == places[at + offset].member
        count = draw.randrange(1, len(stream.ahead) + 1)
        assert bytes(stream.ahead[:count]) == whole[at : at + count]
        stream.drop(count)
        at += count
    assert at == len(whole)
    assert (stream.damaged, stream.kind) == (None, "warc-gz")


def is_open(path: Path) -> bool:
    return path.resolve() in [link.resolve() for link in Path("/proc/self/fd").iterdir()]


def test_an_unfinished_stream_closes_its_file_with_its_last_reference(tmp_path: Path) -> None:
    """A unit reads up to the end of its range, and so leaves the stream before the end of the file."""
    written(path := tmp_path / "a.gz")
    stream = open_record_stream(path, 0, Limits(), begins, Account())
    assert stream.ensure(1)
    assert is_open(path)
    gc.disable()
    try:
        del stream
        assert not is_open(path)
    finally:
        gc.enable()


def test_a_file_that_becomes_shorter_is_truncated(tmp_path: Path) -> None:
    """It does not end the process, as a mapping would by SIGBUS."""
    path = tmp_path / "a.gz"
    path.write_bytes(b"".join(gzip.compress(b"REC " + random.Random(seed).randbytes(100_000)) for seed in range(9)))
    stream = open_record_stream(path, 0, Limits(), begins, Account())
    assert stream.ensure(1)
    os.truncate(path, 250_000)
    while stream.fill():
        pass
    assert stream.damaged is not None
    assert stream.damaged.reason == "truncated"


def test_ranges_of_members_begin_at_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    contents, offsets = written(path)
    records = [offset for offset, content in zip(offsets, contents, strict=False) if content]
    for position in range(0, offsets[-1], 61):
        wanted = min([offset for offset in records if offset >= position], default=offsets[-1])
        assert find_record(path, position, Limits(), begins) == wanted
    (tmp_path / "plain").write_bytes(b"REC plain")
    assert find_record(tmp_path / "plain", 0, Limits(), begins) is None


@pytest.mark.parametrize(
    ("pack", "kind"), [(bytes, "warc"), (zstandard.ZstdCompressor().compress, "warc"), (gzip.compress, "warc-gz")]
)
def test_every_packing_gives_the_same_bytes(tmp_path: Path, pack, kind: str) -> None:
    content = b"REC " + random.Random(4).randbytes(5000)
    path = tmp_path / "file"
    path.write_bytes(pack(content))
    account = Account()
    stream = open_record_stream(path, 0, Limits(), begins, account)
    assert stream.ensure(len(content))
    assert not stream.ensure(len(content) + 1)
    assert (bytes(stream.ahead), stream.kind) == (content, kind)
    assert stream.locate(stream.position(100)) == (0 if kind == "warc-gz" else 100)
    stream.drop(len(content))
    size = path.stat().st_size
    stream.close(size, size)
    assert (account.decoded, account.content, account.undecoded) == (size, len(content), {})


def test_after_damage_the_stream_continues_at_the_next_record(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    contents, offsets = written(path)
    broken = bytearray(path.read_bytes())
    broken[offsets[2] + 40] ^= 0xFF
    path.write_bytes(broken)
    account = Account()
    stream = open_record_stream(path, 0, Limits(), begins, account)
    while stream.fill():
        pass
    assert stream.damaged is not None
    assert (stream.damaged.reason, stream.damaged.member) == ("gzip_error", offsets[2])
    stream.abandon(0)
    assert stream.resync(offsets[-1])
    following = next(number for number in range(3, 12) if contents[number])
    assert stream.position() == Position(offsets[following], 0)
    assert account.undecoded == {"gzip_error": offsets[following] - offsets[2]}
    while stream.fill():
        pass
    assert bytes(stream.ahead) == b"".join(contents[following:])


def drain(path: Path, limits: Limits) -> tuple[list[object], Account]:
    """Return the pieces of a stream with their positions, its damage, and the bytes that it counts."""
    account, size, found = Account(), path.stat().st_size, list[object]()
    stream = open_record_stream(path, 0, limits, begins, account)
    while True:
        stream.ensure(700)
        found.append((stream.position(), bytes(stream.ahead[:700])))
        stream.drop(min(700, len(stream.ahead)))
        if not stream.ensure(1):
            if (damage := stream.damaged) is None:
                break
            found.append((damage.reason, damage.member, damage.content))
            if not stream.resync(size):
                break
    stream.close(size, size)
    return found, account


@pytest.mark.parametrize("seed", range(40))
def test_small_members_give_what_the_general_decoder_gives(tmp_path: Path, monkeypatch, seed: int) -> None:
    """Decoded at once or in pieces: the same bytes, damage and counts, of intact and of damaged files."""
    path, draw = tmp_path / "a.gz", random.Random(seed)
    written(path, seed)
    content = bytearray(path.read_bytes() + gzip.compress(b"REC " + bytes(30_000), mtime=0) * (seed % 3))
    for _ in range(seed % 4):
        content[draw.randrange(100, len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content[: len(content) - (seed % 5 == 4) * draw.randrange(500)])
    limits = Limits() if seed % 7 else Limits(decompressed_bytes=1500)
    if seed % 7 and seed % 2:  # most members are longer than their first piece; a bomb ends with the piece
        monkeypatch.setattr(record_stream, "_FIRST_BYTES", 300)
    at_once = drain(path, limits)
    monkeypatch.setattr(record_stream, "decode_first_piece", lambda *_: None)
    assert drain(path, limits) == at_once
