"""Shuffles: every piece arrives once, in the order of the sources, with or without bundles.

Opens grow linearly.
"""

import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution import shuffle as shuffles
from clozeline.pipeline.execution.shuffle import PieceFile, PieceWriter, Shuffle
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, UnitRecord
from clozeline.seeding import hash64
from tests.pipeline.unit_runs import run_pass, stage_in


@pytest.fixture
def fill(tmp_path, monkeypatch):
    """`fill(sources, destinations)`: a shuffle, and what the files of its sources hold: pieces by
    destination and source."""
    monkeypatch.setattr(shuffles, "_BUNDLE_FILES", 4)
    monkeypatch.setattr(shuffles, "_BUNDLED_OPENS", 16)

    def fill(sources, destinations, rounds=1):
        names = [[f"{n} of {count}" for n in range(count)] for count in (sources, destinations)]
        shuffle = Shuffle("x", *map(tuple, names), "x")
        wanted = {name: {} for name in shuffle.destinations}
        for source, name in enumerate(shuffle.sources):
            output = Output(tmp_path)
            with shuffle.write(output, name) as writer:
                for turn in range(rounds * (source % 3 > 0)):
                    for to, pieces in enumerate(wanted.values()):
                        piece = f"{source}>{to}.{turn};".encode() * to
                        writer.add([piece[:3], piece[3:]])
                        pieces[source] = pieces.get(source, b"") + piece
            UnitRecord("x", name, {}, {}, "ok", {}, output.files).save(tmp_path)
        return shuffle, wanted

    return fill


def read(folder, shuffle, destination, *, numbered=False):
    """Return the pieces of a destination, and what a unit notes of them."""
    inputs = UnitInputs(lambda stage: folder)
    found = {}
    for source, piece in shuffle.pieces.read(inputs, "toy", destination, numbered=numbered):
        found[source] = found.get(source, b"") + piece
    return found, *inputs.reads.values()


@pytest.mark.parametrize(("sources", "bundles"), [(1, 0), (3, 0), (4, 1), (5, 2), (9, 3)])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("numbered", [False, True])
def test_each_destination_gets_its_pieces_in_order(
    tmp_path, fill, sources, bundles, rounds, numbered
):
    """What it notes of them is what the digests of all sources say."""
    shuffle, wanted = fill(sources, 4, rounds)
    for work in shuffle.passes("toy"):
        assert len(work.units) == bundles
        run_pass(stage_in(tmp_path), work, reversed)
    sums = shuffles.sum_digests(KnownRecords().of_pass(tmp_path, "x"), "x", numbered=numbered)

    for to, pieces in wanted.items():
        found, noted = read(tmp_path, shuffle, to, numbered=numbered)
        assert list(found) == sorted(found)
        assert {source: piece for source, piece in found.items() if piece} == {
            source: piece for source, piece in pieces.items() if piece
        }
        assert noted == f"{sums.get(hash64(to), 0):016x}"
        assert (noted == shuffles.NOTHING) == (not any(pieces.values()))


def test_what_is_missing_or_for_other_units_is_named(tmp_path, fill):
    shuffle, _ = fill(5, 4)
    with pytest.raises(StorageError, match=r"000000\.pieces: cannot be read"):
        read(tmp_path, shuffle, shuffle.destinations[0])

    fill(1, 1)
    other = Shuffle("x", ("0 of 1",), ("a", "b"), "x")
    with pytest.raises(IntegrityError, match=r"0 of 1\.pieces: expected .* 2 units, got .* for 1"):
        read(tmp_path, other, "a")


PIECES = [b"first piece", b"", b"second", b"second"]


def write(folder, name, pieces=PIECES):
    with (folder / name).open("wb") as sink:
        writer = PieceWriter(sink, name, 1, None)
        for piece in pieces:
            writer.add([piece[:4], piece[4:]])
        writer.close()

    return folder / name


def pieces_of(folder, name):
    with PieceFile(folder, name) as file:
        return [file.piece(number) for number in reversed(range(len(file)))][::-1]


def test_every_changed_bit_and_every_cut_is_noticed(tmp_path):
    path = write(tmp_path, "a")
    content = path.read_bytes()
    found = 0

    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)

        try:
            assert pieces_of(tmp_path, "a") == PIECES
        except IntegrityError:
            found += 1

    # only the place of an empty piece may change
    assert 8 * len(content) - 64 <= found < 8 * len(content)

    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(IntegrityError):
            pieces_of(tmp_path, "a")


def test_files_and_pieces_cannot_change_places(tmp_path):
    write(tmp_path, "a").replace(tmp_path / "b")
    with pytest.raises(IntegrityError, match="b: its end"):
        pieces_of(tmp_path, "b")
    path = write(tmp_path, "c", [b"x", b"y"])
    content = path.read_bytes()
    path.write_bytes(b"yx" + content[26:50] + content[2:26] + content[50:])
    with pytest.raises(IntegrityError):
        pieces_of(tmp_path, "c")
