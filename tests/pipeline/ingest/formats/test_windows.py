"""Windows of compressed files: read as far as memory allows, else refused by name.

Lost bytes are counted.
"""

import json
import lzma
import os
import random
import struct
import subprocess
import sys
import zlib
from functools import partial

import pytest
import zstandard

from clozeline import memory
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.stage_run import run_units
from clozeline.pipeline.ingest.documents.files import read_rejections
from clozeline.pipeline.ingest.formats.decompression import Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import SkippedRecord, detect_reader
from clozeline.pipeline.recipe import ExecutorConfig
from tests.pipeline.captures import read, texts
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.execution.noting_steps import SharingMemory
from tests.pipeline.miniature import only_part
from tests.refusals import refused

GIB = 1 << 30


def zstd(content, window_log=None):
    """A frame as a pipe through `zstd --long=31` makes it: its header does not tell the size of the
    content."""
    parameters = {} if window_log is None else {"window_log": window_log, "enable_ldm": True}
    chosen = zstandard.ZstdCompressionParameters.from_level(1, write_checksum=True, **parameters)
    stream = zstandard.ZstdCompressor(compression_params=chosen).compressobj()
    return stream.compress(content) + stream.flush()


def xz(content, size_code):
    """A stream whose block names another dictionary: 2**n bytes for the code 2 (n - 12)."""
    packed = bytearray(lzma.compress(content, preset=0))
    end = 12 + 4 * (packed[12] + 1)

    assert packed[13:16] == b"\0\x21\x01", "one filter, LZMA2, with one byte of properties"

    packed[16] = size_code
    packed[end - 4 : end] = struct.pack("<I", zlib.crc32(bytes(packed[12 : end - 4])))
    return bytes(packed)


def rows(first, count=400):
    draw = random.Random(first)
    return b"".join(
        b'{"text": "row %d %x"}\n' % (first + n, draw.getrandbits(200)) for n in range(count)
    )


def raw_frame(content, window_log):
    """A frame of blocks that are not compressed."""
    blocks = [content[at : at + 100_000] for at in range(0, len(content), 100_000)]
    body = b""
    for number, block in enumerate(blocks, 1):
        body += (len(block) << 3 | (number == len(blocks))).to_bytes(3, "little") + block
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window_log - 10 << 3]) + body


@pytest.mark.parametrize("window_log", [20, 27, 31])
def test_a_frame_of_a_large_window_costs_no_row(tmp_path, window_log):
    """Three frames, of which one has a large window: 1,200 rows."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(rows(0)) + zstd(rows(400), window_log) + zstd(rows(800)))
    items = read(path, name="jsonl")

    assert texts(items) == [
        json.loads(line)["text"] for line in b"".join(map(rows, (0, 400, 800))).splitlines()
    ]
    assert detect_reader(path) == ("jsonl", None)


@pytest.mark.parametrize("size_code", [20, 28, 40])
def test_a_stream_of_a_large_dictionary_is_read(tmp_path, size_code):
    path = tmp_path / "a.jsonl.xz"
    path.write_bytes(lzma.compress(rows(0)) + xz(rows(400), size_code))
    assert len(texts(read(path, name="jsonl"))) == 800


@pytest.mark.parametrize(
    ("name", "pack", "window"),
    [
        ("a.jsonl.zst", partial(zstd, window_log=31), 2 * GIB),
        ("a.jsonl.zst", partial(zstd, window_log=30), GIB),
        ("a.jsonl.xz", partial(xz, size_code=38), 2 * GIB),
        ("a.jsonl.xz", partial(xz, size_code=37), 2 * GIB),
        ("a.jsonl.xz", partial(xz, size_code=40), 4 * GIB),
    ],
)
def test_the_key_is_the_largest_window_and_the_error_names_it(tmp_path, name, pack, window):
    path = tmp_path / name
    path.write_bytes(pack(rows(0)) + pack(rows(400)))

    assert len(texts(read(path, name="jsonl", limits=InputLimits(window_bytes=window)))) == 800

    with pytest.raises(ConfigurationError) as found:
        read(path, name="jsonl", limits=InputLimits(window_bytes=window - 1))

    assert str(path) in str(found.value)
    assert f"set limits.window_bytes={window}" in str(found.value)


def test_a_window_larger_than_a_known_content_takes_no_more_than_this(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(rows(0)))
    assert len(texts(read(path, name="jsonl", limits=InputLimits(window_bytes=1 << 16)))) == 400


def test_by_default_memory_is_divided_among_the_processes(tmp_path, monkeypatch):
    """A frame may unfold to `ratio` times the rest of its file: only so much of a window is ever
    used."""
    path = tmp_path / "a.zst"
    path.write_bytes(raw_frame(bytes(8_000_000), 31))
    monkeypatch.setattr(memory, "find_memory", lambda: 8 * GIB)

    assert sum(map(len, decompress_file(path, InputLimits()))) == 8_000_000

    monkeypatch.setattr(memory, "_processes", 3)

    with refused(r"half of 8\.0 GiB of memory, divided among 3 processes"):
        list(decompress_file(path, InputLimits()))

    assert detect_reader(path) == ("text", False), "a look at the first bytes takes little memory"
    assert sum(map(len, decompress_file(path, InputLimits(window_bytes=2 * GIB)))) == 8_000_000
    assert sum(map(len, decompress_file(path, InputLimits(ratio=20)))) == 8_000_000


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_know_how_many_share_the_memory(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(memory, "_processes", 1)  # an earlier test may have shared it
    run_units(SharingMemory(tmp_path), range(3), ExecutorConfig(workers=workers), lambda **_: None)
    for unit in range(3):
        assert int((tmp_path / f"{unit}.share").read_text()) == memory.find_memory() // 2 // workers


@pytest.mark.parametrize(
    ("group", "folder", "name"),
    [
        ("0::/job/step", "sys/fs/cgroup", "memory.max"),
        ("5:cpu,memory:/job/step", "sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ],
)
@pytest.mark.parametrize("limited", ["", "job", "job/step"])
def test_memory_is_the_least_limit_of_the_groups_above(tmp_path, group, folder, name, limited):
    whole = memory.find_memory(tmp_path)
    (tmp_path / folder / "job/step").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:pids:/other\n{group}\n")
    (tmp_path / folder / "job/step" / name).write_text("max\n")

    assert memory.find_memory(tmp_path) == whole

    (tmp_path / folder / limited / name).write_text(f"{GIB // 2}\n")

    assert memory.find_memory(tmp_path) == GIB // 2


@pytest.mark.parametrize(
    ("group", "file", "limit", "cores"),
    [
        ("0::/job", "sys/fs/cgroup/job/cpu.max", "150000 100000", 2),
        ("0::/job", "sys/fs/cgroup/cpu.max", "max 100000", 64),
        ("4:cpu,cpuacct:/job", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000", 1),
        ("4:cpu,cpuacct:/job", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1", 64),
    ],
)
def test_cores_are_the_least_limit_too(tmp_path, monkeypatch, group, file, limit, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{group}\n")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"{limit}\n")

    assert memory.find_cores(tmp_path) == cores


@pytest.mark.parametrize("window_log", [32, 41])
def test_a_window_that_no_library_decodes_is_damage(tmp_path, window_log):
    path = tmp_path / "a.zst"
    path.write_bytes(raw_frame(b"x" * 99, window_log))
    (item,) = decompress_file(path, InputLimits(window_bytes=4 * GIB))
    assert item.reason == "damaged"


STARVED = """
import resource, sys
from pathlib import Path
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.decompression import decompress_file
from clozeline.pipeline.ingest.formats.limits import InputLimits
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 29), size + (1 << 29)))
try:
    print([piece for piece in decompress_file(Path(sys.argv[1]), InputLimits())])
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.zst", partial(zstd, window_log=31)),
        ("a.xz", partial(xz, size_code=38)),
    ],
)
def test_memory_that_is_missing_is_no_damage(tmp_path, name, pack):
    """The library cannot get its window: the content is right."""
    path = tmp_path / name
    path.write_bytes(pack(rows(0)))
    done = subprocess.run(
        [sys.executable, "-c", STARVED, path], capture_output=True, text=True, check=True
    )
    codec = path.suffix[1:].replace("zst", "zstd")

    assert f"{path}: not enough memory to decompress the {codec} data at" in done.stdout


def test_bytes_that_do_not_decode_are_counted(tmp_path):
    """A frame that breaks in its middle is lost from there to the next frame."""
    frames = [zstd(rows(first)) for first in (0, 400, 800)]
    broken = bytearray(frames[1])
    middle = len(broken) // 2
    broken[middle : middle + 600] = bytes(600)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(frames[0] + bytes(broken) + frames[2])
    (damage,) = (
        piece for piece in decompress_file(path, InputLimits()) if isinstance(piece, Damage)
    )

    assert (damage.reason, damage.member) == ("damaged", len(frames[0]))

    lost = damage.lost_bytes

    assert len(broken) - middle <= lost <= len(broken)

    for name in ("jsonl", "tsv", "lines", "csv", "warc"):
        items = read(path, name=name)
        assert sum(item.lost_bytes for item in items if isinstance(item, SkippedRecord)) == lost, (
            name
        )

    for name in ("text", "mediawiki"):  # which do not go on behind damage
        items = read(path, name=name)
        assert sum(
            item.lost_bytes for item in items if isinstance(item, SkippedRecord)
        ) == lost + len(frames[2]), name

    done = run_clean(str(path), tmp_path / "out")

    assert done.counts["bytes_lost"] == {"default/a.jsonl.zst": lost}

    (listed,) = read_rejections(only_part(done.folder, "rejects"))

    assert listed.detail.endswith(f"{lost:,} bytes of the file do not decode")


def test_junk_and_records_across_damage_are_counted_by_bytes(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(rows(0)) + b"junk" * 25 + zstd(rows(400)))
    assert [
        item.lost_bytes for item in read(path, name="jsonl") if isinstance(item, SkippedRecord)
    ][:1] == [100]


def test_what_decodes_of_a_broken_frame_is_not_lost(tmp_path):
    """Blocks of 128 KiB decode one after another."""
    packed = bytearray(zstd(rows(0, 20_000)))
    place = len(packed) * 3 // 4
    packed[place : place + 600] = bytes(600)
    path = tmp_path / "a.zst"
    path.write_bytes(packed)
    *_, damage = decompress_file(path, InputLimits())

    assert 0 < damage.lost_bytes < len(packed) // 2


def test_an_array_that_breaks_is_counted_by_bytes(tmp_path):
    packed = bytearray(zstd(b"[" + rows(0).replace(b"}\n", b"},") + b"{}]"))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    path = tmp_path / "a.json.zst"
    path.write_bytes(packed)
    (item,) = read(path, name="json_array")

    assert (item.reason, item.lost_bytes) == ("damaged", len(packed))
