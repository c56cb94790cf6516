"""Shuffles: every piece arrives once, in the order of the sources, with or without bundles.

Opens grow linearly.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution import shuffle as shuffles
from clozeline.pipeline.execution.shuffle import PieceFile, PieceWriter, Shuffle
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, UnitRecord
from clozeline.seeding import hash64
from tests.pipeline.unit_runs import run_pass, stage_in


def shuffle_of(sources, destinations):
    sides = [
        tuple(f"{side} {number}" for number in range(count))
        for side, count in (("from", sources), ("to", destinations))
    ]
    return Shuffle("x", *sides, "x")


def read_all(folder, shuffle, destination):
    inputs = UnitInputs(lambda stage: folder)
    return list(shuffle.pieces.read(inputs, "toy", shuffle.destinations[destination]))


def joined(pieces):
    """Return the content of the pieces by source, without sources that have none."""
    content = {}
    for source, piece in pieces:
        content[source] = content.get(source, b"") + piece
    return {source: piece for source, piece in content.items() if piece}


def fill(folder, shuffle, rounds=1):
    """Write the files of all sources; return what each destination gets."""
    wanted = {destination: [] for destination in range(len(shuffle.destinations))}

    for source, name in enumerate(shuffle.sources):
        with shuffle.write(Output(folder), name) as writer:
            for turn in range(rounds * (source % 3 > 0)):
                for destination in wanted:
                    piece = f"{source}>{destination}.{turn};".encode() * (destination % 2 + turn)
                    writer.add([piece])
                    wanted[destination].append((source, piece))

    return wanted


def run_passes(folder, shuffle):
    passes = shuffle.passes("toy")
    for work in passes:
        run_pass(stage_in(folder), work, reversed)
    return sum(len(work.units) for work in passes)


@pytest.mark.parametrize(("sources", "bundles"), [(1, 0), (3, 0), (4, 1), (5, 2), (8, 2), (9, 3)])
@pytest.mark.parametrize("rounds", [1, 3])
def test_each_destination_gets_its_pieces_in_order(tmp_path, monkeypatch, sources, bundles, rounds):
    monkeypatch.setattr(shuffles, "_BUNDLE_FILES", 4)
    monkeypatch.setattr(shuffles, "_BUNDLED_OPENS", 16)
    shuffle = shuffle_of(sources, 4)
    wanted = fill(tmp_path, shuffle, rounds)

    assert run_passes(tmp_path, shuffle) == bundles

    for destination, pieces in wanted.items():
        assert joined(read_all(tmp_path, shuffle, destination)) == joined(pieces)


def test_a_missing_bundle_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffles, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffles, "_BUNDLED_OPENS", 4)
    shuffle = shuffle_of(3, 2)
    fill(tmp_path, shuffle)
    with pytest.raises(StorageError, match=r"000000\.pieces: missing"):
        read_all(tmp_path, shuffle, 0)


def test_pieces_for_another_number_of_units_are_refused_by_name(tmp_path):
    fill(tmp_path, shuffle_of(1, 1))
    with pytest.raises(IntegrityError, match=r"from 0\.pieces: expected .* 2 units, got .* for 1"):
        read_all(tmp_path, shuffle_of(1, 2), 0)


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("bundled", [False, True])
def test_what_a_unit_notes_of_its_pieces_is_what_the_digests_of_all_sources_say(
    tmp_path, monkeypatch, numbered, bundled
):
    """Also of several rounds; only a unit that numbers its sources tells them apart."""
    monkeypatch.setattr(shuffles, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffles, "_BUNDLED_OPENS", 4 if bundled else 1000)
    shuffle = shuffle_of(5, 3)
    for source in shuffle.sources:
        output = Output(tmp_path)
        with shuffle.write(output, source) as writer:
            for number in range(6):
                writer.add([b"x" * (number % 3)])
        UnitRecord("x", source, {}, {}, "ok", {}, output.files).save(tmp_path)
    run_passes(tmp_path, shuffle)
    inputs = UnitInputs(lambda stage: tmp_path)
    for name in shuffle.destinations:
        list(shuffle.pieces.read(inputs, "toy", name, numbered=numbered))
    sums = shuffles.sum_digests(tmp_path, KnownRecords(), "x", "x", numbered=numbered)

    noted = [*inputs.reads.values()]
    assert noted == [f"{sums.get(hash64(name), 0):016x}" for name in shuffle.destinations]
    assert noted[0] == shuffles.NOTHING
    assert len({*noted}) == 3


PIECES = [[b"first ", b"piece"], [], [b"second"], [b"second"]]


def write(folder, name, pieces):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)

    with (folder / name).open("wb") as sink:
        writer = PieceWriter(sink, name, 1)
        for parts in pieces:
            writer.add(iter(parts))
        writer.close()

    return folder / name


def read(folder, name):
    with PieceFile(folder, name) as file:
        return [file.piece(number) for number in range(len(file))]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=9), max_size=3), max_size=6))
def test_pieces_come_back_in_any_order(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("pieces")
    write(folder, "tmp/a", pieces)

    assert read(folder, "tmp/a") == [b"".join(parts) for parts in pieces]

    with PieceFile(folder, "tmp/a") as file:
        backwards = [file.piece(number) for number in reversed(range(len(file)))]
        with pytest.raises(IntegrityError, match=f"{len(pieces)} pieces"):
            file.piece(len(pieces))

    assert backwards == [b"".join(parts) for parts in reversed(pieces)]


def test_every_changed_bit_and_every_cut_is_noticed(tmp_path):
    path = write(tmp_path, "a", PIECES)
    content = path.read_bytes()
    found = 0

    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)

        try:
            assert read(tmp_path, "a") == [b"".join(parts) for parts in PIECES]
        except IntegrityError:
            found += 1

    assert 8 * len(content) - 64 <= found < 8 * len(content), (
        "only the place of an empty piece may change"
    )

    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(IntegrityError):
            read(tmp_path, "a")


def test_files_and_pieces_cannot_change_places(tmp_path):
    write(tmp_path, "a", PIECES).replace(tmp_path / "b")
    with pytest.raises(IntegrityError, match="b: its end"):
        read(tmp_path, "b")
    path = write(tmp_path, "c", [[b"x"], [b"y"]])
    content = path.read_bytes()
    path.write_bytes(b"yx" + content[26:50] + content[2:26] + content[50:])
    with pytest.raises(IntegrityError):
        read(tmp_path, "c")
