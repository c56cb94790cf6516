"""No single flipped bit of a shard set goes unnoticed: the stream finds it in what it reads, `validate_shards` in all.

Random places of all files, and every place of a manifest.
"""

import random
from itertools import product

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import validate
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import objective, ordered, write_set

ROWS = 16


@pytest.fixture(params=product(("arrow", "tar"), ("none", "zstd")), ids=" ".join)
def folder(tmp_path, monkeypatch, request):
    """A small set.

    The manifest has everything that JSON can spell in two ways: fractions, signs beyond ASCII.
    """
    container, codec = request.param
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0.0)  # before a bad block is read again
    facts = objective("decoder", rate=1e-7, text="café ▁ \N{GRINNING FACE}")
    shards = [ordered(range(1, 12)), ordered([]), ordered(range(12, 1 + ROWS))]
    write_set(tmp_path / "set", shards, container=container, codec=codec, objective=facts, languages=("en",))
    return tmp_path / "set"


def stream(folder):
    """An epoch, as a trainer reads it."""
    shards = open_shards(folder)
    sizes = {"lanes": 2, "global_batch": 4, "micro_batch": 4, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, seed=1, **sizes) as batches:
        for _ in range(ROWS // 4):
            batches.next_step()


def mistake(check, folder):
    """Return the faults that a check of the set names."""
    try:
        check(folder)
    except IntegrityError as error:
        return str(error)
    return ""


def read_by_the_stream(folder):
    """The files of the set, and which of their bytes the stream reads: those of blocks, and all that are no shards."""
    shards = open_shards(folder)
    files = {path: np.ones(path.stat().st_size, np.bool_) for path in sorted(folder.iterdir())}
    for number in range(len(shards.manifest.shards)):
        files[shards.shard_path(number)][:] = False
    for shard, start, length in zip(shards.index.shard, shards.index.offset, shards.index.length, strict=True):
        files[shards.shard_path(int(shard))][int(start) : int(start + length)] = True
    return files


def silent_flips(folder, bits):
    """Flip bits of the set, each alone; those that a reader lets pass."""
    files = read_by_the_stream(folder)
    silent = []
    for path, bit in bits:
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        streamed = mistake(stream, folder)
        if str(folder) not in mistake(validate, folder) or bool(streamed) != files[path][bit // 8]:
            silent.append(f"{path.name}: bit {bit % 8} of byte {bit // 8}; the stream said {streamed!r}")
        path.write_bytes(whole)
    return silent


def some_bits(folder, count):
    """Places drawn from all files alike: each has its share, however small it is beside the others."""
    draw = random.Random(folder.name)
    files = sorted(folder.iterdir())
    for number in range(count):
        path = files[number % len(files)]
        yield path, draw.randrange(8 * path.stat().st_size)


def test_hundreds_of_flipped_bits_are_found(folder):
    assert silent_flips(folder, some_bits(folder, 40)) == []


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_found(folder):
    assert silent_flips(folder, some_bits(folder, 2500)) == []  # of each of four forms


@pytest.mark.slow
@pytest.mark.parametrize("folder", [("arrow", "zstd")], indirect=True, ids=" ".join)
def test_every_bit_of_a_manifest_counts(folder):
    path = folder / "manifest.json"
    assert silent_flips(folder, [(path, bit) for bit in range(8 * path.stat().st_size)]) == []
