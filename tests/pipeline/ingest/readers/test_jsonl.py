import gzip
import json
import random
from itertools import pairwise

import pytest
import zstandard

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord, detect
from tests.pipeline.captures import counted, read, texts


def lines(count, start=0):
    return b"".join(b'{"text": "line %d"}\n' % number for number in range(start, start + count))


FILE = lines(9)


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.jsonl"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def items_of(path, **options):
    return read(path, name="jsonl", **options)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "cut', "bad_json"),
        (b"no json", "bad_json"),
        (b"[" * 3000 + b"]" * 3000, None),
        (b"[" * 200_000, "bad_json"),
        (b"[1, 2]", "bad_json"),
        (b"12", "bad_json"),
        (b'"text"', "bad_json"),
        (b'{"title": "x"}', "no_text"),
        (b'{"text": null}', "no_text"),
        (b'{"text": ""}', "empty"),
        (b'{"text": " \\n\\t"}', "empty"),
        (b'{"text": 5}', "text_type"),
        (b'{"text": ["a"]}', "text_type"),
        (b'{"text": "bad \xff byte"}', "bad_utf8"),
        (b"", "blank_line"),
        (b"  \r", "blank_line"),
    ],
)
def test_a_bad_line_costs_itself(write, line, reason):
    items = items_of(write(lines(2) + line + b"\n" + lines(2, 2)))
    assert texts(items) == ["line 0", "line 1", "line 2", "line 3"]
    found = counted(items)
    assert sum(found.values()) == 1
    assert reason is None or found == {reason: 1}


def test_only_newlines_divide_lines(write):
    content = "\ufeff" + '{"text": "a\u2028b\u0085c"}\r\n{"text": "two"}'
    items = items_of(write(content.encode()))
    assert texts(items) == ["a\u2028b\u0085c", "two"]


def test_a_long_line_is_passed_over_without_being_held(write):
    content = lines(1) + b'{"text": "' + b"x" * 5_000_000 + b'"}\n' + lines(1, 1)
    items = items_of(write(content), limits=Limits(line_bytes=1_000_000))
    assert texts(items) == ["line 0", "line 1"]
    assert [item for item in items if isinstance(item, Counted)] == [Counted("malformed", "line_bytes", 5_000_012)]


def packed_zstd(*parts):
    skippable = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"hello"
    return skippable.join(zstandard.ZstdCompressor().compress(part) for part in parts)


@pytest.mark.parametrize("pack", [lambda *parts: b"".join(map(gzip.compress, parts)), packed_zstd])
@pytest.mark.parametrize(("tail", "reasons"), [(b"", {}), (b"junk after it all", {"trailing_junk": 1})])
def test_all_members_are_read_and_junk_is_counted(write, pack, tail, reasons):
    path = write(pack(lines(500), lines(500, 500)) + tail, "rows.jsonl.packed")
    items = items_of(path)
    assert texts(items) == [f"line {number}" for number in range(1000)]
    assert counted(items) == reasons


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(level=1).compress])
def test_a_truncated_file_gives_its_whole_lines(write, pack):
    draw = random.Random(3)
    rows = [f"{number} {draw.randbytes(40).hex()}" for number in range(20_000)]
    content = "".join(json.dumps({"text": row}) + "\n" for row in rows).encode()
    packed = pack(content)
    items = items_of(write(packed[: len(packed) // 2], "rows.jsonl.gz"))
    found = texts(items)
    assert 5_000 < len(found) < 15_000
    assert found == rows[: len(found)]
    assert counted(items) == {"truncated": 1}


def test_a_window_of_gigabytes_is_refused(write):
    parameters = zstandard.ZstdCompressionParameters(window_log=31, compression_level=1)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(lines(3)) + stream.flush()
    assert counted(items_of(write(packed, "rows.jsonl.zst"))) == {"damaged": 1}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(level=3).compress])
def test_a_bomb_is_not_unpacked(write, pack):
    path = write(pack(lines(3) + b" " * (80 << 20)), "rows.jsonl.gz")
    items = items_of(path, limits=Limits(line_bytes=1 << 20))
    assert texts(items) == ["line 0", "line 1", "line 2"]
    assert counted(items) == {"bomb": 1}


def test_ranges_hold_every_line_once(write):
    draw = random.Random(2)
    content = b"".join(b'{"text": "%d"}\n' % draw.randrange(10 ** draw.randrange(1, 40)) for _ in range(300))
    path = write(content)
    assert detect(path) == ("jsonl", True)
    whole = [(item.locator, item.text) for item in items_of(path)]
    assert len(whole) == 300
    for pieces in range(1, 51):
        bounds = [0, *sorted(draw.randrange(len(content)) for _ in range(pieces)), len(content)]
        reads = [read(path, start, end, name="jsonl") for start, end in pairwise(bounds)]
        assert [(item.locator, item.text) for items in reads for item in items if isinstance(item, RawRecord)] == whole


def test_the_locator_finds_the_line_again(write):
    path = write(b"\n" + lines(3))
    for item in items_of(path):
        if isinstance(item, RawRecord):
            raw = path.read_bytes()[item.locator : item.locator + item.length]
            assert json.loads(raw)["text"] == item.text


def test_keys_of_the_text_can_be_named(write):
    path = write(b'{"body": "hello", "link": "http://a/", "text": 3}')
    item = items_of(path, text_key="body", url_key="link")[0]
    assert (item.text, item.url, item.extra) == ("hello", "http://a/", {"text": 3})
