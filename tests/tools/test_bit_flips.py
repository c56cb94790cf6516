"""No single flipped bit of a shard set goes unnoticed, wherever it is; random places, and every place of a manifest."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ClozelineError
from tests.shard_sets import objective, ordered, write_set
from tools.validate_shards import validate


@pytest.fixture(params=["arrow none", "arrow zstd", "tar none", "tar zstd"])
def folder(tmp_path, request) -> Path:
    """A small set whose manifest has everything that JSON can spell in two ways: fractions, signs beyond ASCII."""
    container, codec = request.param.split()
    facts = objective("decoder", rate=1e-7, text="café ▁ \N{GRINNING FACE}")
    shards = [ordered(range(1, 12)), ordered(range(12, 17))]
    write_set(tmp_path / "set", shards, container=container, codec=codec, objective=facts, languages=("en",))
    return tmp_path / "set"


def mistake(folder: Path) -> str:
    """What a check of the set says is wrong, if anything."""
    try:
        validate(folder)
    except ClozelineError as error:
        return str(error)
    return ""


def silent_flips(folder: Path, bits: list[int]) -> list[str]:
    """Flip bits of the set, each alone, counted over all its files; those that a check of the set lets pass."""
    files = sorted(folder.iterdir())
    whole = [path.read_bytes() for path in files]
    ends = np.cumsum([len(content) for content in whole])
    silent = []
    for bit in bits:
        number = int(np.searchsorted(ends, bit // 8, side="right"))
        place = bit // 8 - (int(ends[number - 1]) if number else 0)
        damaged = bytearray(whole[number])
        damaged[place] ^= 1 << bit % 8
        files[number].write_bytes(damaged)
        if str(folder) not in mistake(folder):
            silent.append(f"{files[number].name}: bit {bit % 8} of byte {place}")
        files[number].write_bytes(whole[number])
    return silent


def some_bits(folder: Path, count: int) -> list[int]:
    size = sum(path.stat().st_size for path in folder.iterdir())
    return random.Random(folder.name).sample(range(8 * size), count)


def test_a_whole_set_passes(folder):
    assert validate(folder).startswith("OK: ")


def test_hundreds_of_flipped_bits_are_found(folder):
    assert silent_flips(folder, some_bits(folder, 100)) == []


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_found(folder):
    assert silent_flips(folder, some_bits(folder, 2500)) == []  # of each of four forms


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["arrow zstd"], indirect=True)
def test_every_bit_of_a_manifest_counts(folder):
    files = sorted(folder.iterdir())
    before = sum(path.stat().st_size for path in files[: files.index(folder / "manifest.json")])
    bits = range(8 * before, 8 * (before + (folder / "manifest.json").stat().st_size))
    assert silent_flips(folder, list(bits)) == []
