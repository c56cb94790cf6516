"""Files of pieces: what is written is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.pieces import PieceFile, PieceWriter

PIECES = [[b"first ", b"piece"], [], [b"second"], [b"second"]]


def write(folder, name, pieces):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as sink:
        writer = PieceWriter(sink, name)
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
    assert backwards == [b"".join(parts) for parts in reversed(pieces)]


def test_every_changed_bit_and_every_cut_is_noticed(tmp_path):
    path = write(tmp_path, "a", PIECES)
    content, found = path.read_bytes(), 0
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert read(tmp_path, "a") == [b"".join(parts) for parts in PIECES]
        except IntegrityError:
            found += 1
    assert 8 * len(content) - 64 <= found < 8 * len(content), "only the place of an empty piece may change"
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


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"a: missing; delete .*tmp and run the stage"):
        PieceFile(tmp_path, "a")


def test_a_piece_that_is_not_there_is_an_error(tmp_path):
    write(tmp_path, "a", PIECES)
    with PieceFile(tmp_path, "a") as file, pytest.raises(IntegrityError, match="4 pieces"):
        file.piece(4)
