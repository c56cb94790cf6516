from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from pipeline.files import file_hash
from train.checkpoint.format import (
    CheckpointReader,
    FileRecord,
    Index,
    ParameterRecord,
    check_files,
    part_name,
    tiling_problem,
)
from train.errors import CheckpointError


def cuts(size: int, parts: int) -> list[tuple[int, int, int]]:
    return [(r, size * r // parts, size * (r + 1) // parts - size * r // parts) for r in range(parts)]


def write_parts(folder: Path, size: int, parts: int) -> Index:
    """A checkpoint of one parameter 0, 1, 2, ... cut into parts."""
    values = torch.arange(size, dtype=torch.float32)
    pieces = cuts(size, parts)
    for part, start, count in pieces:
        tensors = {"weight/p": values[start : start + count].clone()} if count else {}
        save_file(tensors, folder / part_name(part))
    names = [part_name(part) for part in range(parts)]
    files = {name: FileRecord((folder / name).stat().st_size, file_hash(folder / name)) for name in names}
    slices = [piece for piece in pieces if piece[2]]
    return Index({}, {}, {"p": ParameterRecord([size], "decay", ["weight"], slices)}, [], files)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 97), parts=st.integers(1, 8), data=st.data())
def test_any_range_is_read_from_any_parts(
    tmp_path_factory: pytest.TempPathFactory, size: int, parts: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    index = write_parts(folder, size, parts)
    start = data.draw(st.integers(0, size))
    count = data.draw(st.integers(0, size - start))
    assert tiling_problem("p", index.parameters["p"]) == ""
    assert CheckpointReader(folder, index).read("weight", "p", start, count).tolist() == list(
        range(start, start + count)
    )


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([(0, 0, 4), (1, 4, 6)], ""),
        ([(1, 4, 6), (0, 0, 4)], ""),
        ([(0, 0, 4), (1, 5, 5)], "a gap at element 4"),
        ([(0, 0, 5), (1, 4, 6)], "an overlap at element 4"),
        ([(0, 0, 4), (1, 4, 5)], "end at element 9 of 10"),
        ([(0, 0, 4), (1, 4, 7)], "end at element 11 of 10"),
        ([], "end at element 0 of 10"),
    ],
)
def test_slices_must_tile(slices: list[tuple[int, int, int]], problem: str) -> None:
    assert problem in tiling_problem("p", ParameterRecord([2, 5], "decay", ["weight"], slices))
    assert bool(problem) == bool(tiling_problem("p", ParameterRecord([2, 5], "decay", ["weight"], slices)))


def test_index_round_trip(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 10, 3)
    index.write(tmp_path)
    assert Index.read(tmp_path) == index


def test_index_of_a_newer_format(tmp_path: Path) -> None:
    write_parts(tmp_path, 10, 3).write(tmp_path)
    fields = json.loads((tmp_path / "checkpoint.json").read_text())
    (tmp_path / "checkpoint.json").write_text(json.dumps({**fields, "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        Index.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}'])
def test_torn_index(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"checkpoint\.json: cannot be read"):
        Index.read(tmp_path)


def test_files_are_compared(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 100, 2)
    part = tmp_path / part_name(1)
    whole = part.read_bytes()
    check_files(tmp_path, index.files, hashes=True, only=index.files)
    part.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=rf"part-00001.*expected {len(whole)} bytes, got {len(whole) - 1}"):
        check_files(tmp_path, index.files, hashes=False, only=index.files)
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    check_files(tmp_path, index.files, hashes=False, only=index.files)
    with pytest.raises(CheckpointError, match=r"part-00001.*corrupted"):
        check_files(tmp_path, index.files, hashes=True, only=index.files)
    part.unlink()
    with pytest.raises(CheckpointError, match=r"part-00001.*No such file"):
        check_files(tmp_path, index.files, hashes=False, only=index.files)


def test_reader_names_what_is_missing(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 10, 2)
    reader = CheckpointReader(tmp_path, index)
    with pytest.raises(CheckpointError, match="no exp_avg of parameter p"):
        reader.read("exp_avg", "p", 0, 1)
    with pytest.raises(CheckpointError, match="no weight of parameter q"):
        reader.read("weight", "q", 0, 1)
    with pytest.raises(CheckpointError, match="lacks elements"):
        reader.read("weight", "p", 8, 5)
    assert reader.whole("weight", "p").shape == (10,)
