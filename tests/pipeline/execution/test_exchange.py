"""Exchanges: every piece arrives once, in the order of the sources, with or without bundles; opens grow linearly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.dedup.parts import count_ranges
from clozeline.pipeline.execution import exchange as exchanges
from clozeline.pipeline.execution.exchange import Bundles, Exchange
from clozeline.pipeline.execution.pieces import PieceFile, PieceWriter
from clozeline.pipeline.execution.unit_record import Output


def fill(folder: Path, exchange: Exchange, rounds: int = 1) -> dict[int, list[bytes]]:
    """Write the files of all sources; return what each destination gets."""
    wanted: dict[int, list[bytes]] = {destination: [] for destination in range(exchange.destinations)}
    for source in range(exchange.sources):
        name = exchange.file(source)
        with Output(folder).file(name) as path, path.open("wb") as sink:
            writer = PieceWriter(sink, name)
            for turn in range(rounds * (source % 3 > 0)):
                for destination in range(exchange.destinations):
                    piece = f"{source}>{destination}.{turn};".encode() * (destination % 2 + turn)
                    writer.add([piece])
                    wanted[destination].append(piece)
            writer.close()
    return wanted


def run_passes(folder: Path, exchange: Exchange) -> int:
    passes = exchange.passes()
    for work in passes:
        for unit in reversed(range(work.units)):
            work.run(unit, Output(folder))
    return sum(work.units for work in passes)


@pytest.mark.parametrize(("sources", "bundles"), [(1, 0), (3, 0), (4, 1), (5, 2), (8, 2), (9, 3)])
@pytest.mark.parametrize("rounds", [1, 3])
def test_each_destination_gets_its_pieces_in_order(tmp_path, monkeypatch, sources, bundles, rounds):
    monkeypatch.setattr(exchanges, "_GROUP", 4)
    monkeypatch.setattr(exchanges, "_FEWEST", 16)
    exchange = Exchange("x", sources, 5)
    wanted = fill(tmp_path, exchange, rounds)
    assert run_passes(tmp_path, exchange) == bundles
    for destination, pieces in wanted.items():
        assert b"".join(exchange.read(tmp_path, destination)) == b"".join(pieces)


def test_a_missing_bundle_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(exchanges, "_GROUP", 2)
    monkeypatch.setattr(exchanges, "_FEWEST", 4)
    exchange = Exchange("x", 3, 2)
    fill(tmp_path, exchange)
    with pytest.raises(StorageError, match=r"000000\.pieces: missing"):
        list(exchange.read(tmp_path, 0))


def opens(folder: Path, monkeypatch: pytest.MonkeyPatch, units: int) -> int:
    """Files opened for an exchange of as many units on both sides."""
    exchange = Exchange("x", units, units)
    fill(folder, exchange)
    counted: Counter[str] = Counter()

    class Counting(PieceFile):
        def __init__(self, folder: Path, name: str) -> None:
            counted["opens"] += 1
            super().__init__(folder, name)

    monkeypatch.setattr(exchanges, "PieceFile", Counting)
    run_passes(folder, exchange)
    for destination in range(units):
        list(exchange.read(folder, destination))
    return counted["opens"]


def test_opens_grow_with_units_and_not_with_their_square(tmp_path, monkeypatch):
    monkeypatch.setattr(exchanges, "_GROUP", 8)
    monkeypatch.setattr(exchanges, "_FEWEST", 64)
    few, many = (opens(tmp_path / str(units), monkeypatch, units) for units in (7, 56))
    assert few == 7 * 7
    assert (few + 7, many + 56 + 7) == tuple(Exchange("x", units, units).opens for units in (7, 56))
    assert many == 56 + 56 * 56 // 8 < 9 * few + 56


def test_at_the_defaults_a_terabyte_takes_fewer_than_a_hundred_thousand_opens():
    units = -(-(10**12) // (1 << 28))
    exchange = Exchange("x", units, units)
    ranges = count_ranges(units)
    hashes, drops, inner = Exchange("x", units, ranges), Exchange("x", ranges, units), Exchange("x", ranges, ranges)
    assert exchange.opens + 3 * units < 100_000
    assert 3 * hashes.opens + 3 * drops.opens + 3 * inner.opens + 7 * units < 100_000
    assert exchange.bundles == -(-units // 256)


def test_a_bundle_is_missed_only_for_a_later_pass():
    assert Bundles(Exchange("x", 300, 2)).intermediate
