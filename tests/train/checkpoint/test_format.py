"""The index of a checkpoint, and ranges of its parts: any range, and nothing of a file that
changed."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from clozeline.errors import CheckpointError, NewerFormatError
from clozeline.files import file_hash
from clozeline.train.checkpoint.stored_checkpoint import (
    CheckpointReader,
    FileRecord,
    Index,
    ParameterRecord,
    _encode_with_checksum,
    part_name,
    steps_in,
    tiling_problem,
)


def cuts(size, parts):
    return [
        (
            r,
            size * r // parts,
            size * (r + 1) // parts - size * r // parts,
        )
        for r in range(parts)
    ]


def write_parts(folder, size, parts):
    """A checkpoint of one parameter 0, 1, 2, ... cut into parts."""
    values = torch.arange(size, dtype=torch.float32)
    pieces = cuts(size, parts)
    for part, start, count in pieces:
        tensors = {"weight/family.p": values[start : start + count].clone()} if count else {}
        save_file(tensors, folder / part_name(part))

    names = [part_name(part) for part in range(parts)]
    files = {
        name: FileRecord((folder / name).stat().st_size, file_hash(folder / name)) for name in names
    }
    slices = [piece for piece in pieces if piece[2]]
    return Index(
        {},
        {},
        {"family.p": ParameterRecord([size], "decay", ["weight"], slices)},
        [],
        files,
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
def test_slices_must_tile(slices, problem):
    assert problem in tiling_problem(
        "family.p", ParameterRecord([2, 5], "decay", ["weight"], slices)
    )
    assert bool(problem) == bool(
        tiling_problem("family.p", ParameterRecord([2, 5], "decay", ["weight"], slices))
    )


def test_a_whole_state_has_the_shape_that_the_index_says(tmp_path):
    stated = replace(write_parts(tmp_path, 10, 2), whole={"row/p": [2]})
    stated.write(tmp_path)

    assert Index.read(tmp_path) == stated

    part = tmp_path / part_name(0)
    save_file({**load_file(part), "row/p": torch.ones(2)}, part)

    assert CheckpointReader(tmp_path, stated).states()["row/p"].tolist() == [1, 1]


def test_index_of_a_newer_format(tmp_path):
    """It is told from a damaged format by the checksum."""
    written = replace(write_parts(tmp_path, 10, 3), format=99)
    written.write(tmp_path)
    with pytest.raises(NewerFormatError, match=r"a newer version wrote this file \(format 99"):
        Index.read(tmp_path)
    path = tmp_path / "checkpoint.json"
    path.write_text(path.read_text().replace('"format":99', '"format":91'))
    with pytest.raises(CheckpointError, match="changed after it was written") as found:
        Index.read(tmp_path)

    assert not isinstance(found.value, NewerFormatError)


def reseal(folder, change):
    """Change an index as a fault of the program would, which writes it with a right checksum."""
    plain = json.loads((folder / "checkpoint.json").read_text())
    del plain["checksum"]
    change(plain)
    (folder / "checkpoint.json").write_bytes(_encode_with_checksum(plain))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda plain: plain["parameters"]["family.p"]["slices"][0].__setitem__(1, -1),
            "greater than or equal to 0",
        ),
        (lambda plain: plain["parameters"]["family.p"].update(more=1), "parameters.family.p.more"),
        (lambda plain: plain.update(format=0), "format: .* 1"),
    ],
)
def test_an_index_of_another_schema(tmp_path, change, problem):
    write_parts(tmp_path, 10, 3).write(tmp_path)
    reseal(tmp_path, change)
    with pytest.raises(CheckpointError, match=problem):
        Index.read(tmp_path)


def test_folders_of_other_names_are_no_checkpoints(tmp_path):
    others = ["step-backup", "step-0000001", "step-00000002.old"]
    for name in ["step-00000002", "step-100000000", "step-99999999", *others]:
        (tmp_path / name).mkdir()
    (tmp_path / "step-00000003").write_text("a file")

    assert [path.name for path in steps_in(tmp_path)] == [
        "step-00000002",
        "step-99999999",
        "step-100000000",
    ]


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 97),
    parts=st.integers(1, 8),
    data=st.data(),
)
def test_any_range_is_read_from_any_parts(tmp_path_factory, size, parts, data):
    folder = tmp_path_factory.mktemp("parts")
    index = write_parts(folder, size, parts)
    start = data.draw(st.integers(0, size))
    count = data.draw(st.integers(0, size - start))

    assert tiling_problem("family.p", index.parameters["family.p"]) == ""
    assert CheckpointReader(folder, index).read(
        "weight", "family.p", start, count
    ).tolist() == list(range(start, start + count))


def test_a_buffer_is_in_the_first_part(tmp_path):
    index = write_parts(tmp_path, 4, 1)
    values = torch.arange(4.0)
    save_file({"weight/family.p": values, "buffer/b": values.long()}, tmp_path / part_name(0))

    assert CheckpointReader(tmp_path, index).buffer("b", [4]).tolist() == [0, 1, 2, 3]

    with pytest.raises(CheckpointError, match=r"buffer b has shape \[4\], not \[2, 2\]"):
        CheckpointReader(tmp_path, index).buffer("b", [2, 2])


def test_reader_names_what_is_missing(tmp_path):
    index = write_parts(tmp_path, 10, 2)
    reader = CheckpointReader(tmp_path, index)
    with pytest.raises(CheckpointError, match=r"no exp_avg of parameter family\.p"):
        reader.read("exp_avg", "family.p", 0, 1)
    with pytest.raises(CheckpointError, match="no weight of parameter q"):
        reader.read("weight", "q", 0, 1)
    with pytest.raises(CheckpointError, match="lacks elements"):
        reader.read("weight", "family.p", 8, 5)

    assert reader.parameter("weight", "family.p").shape == (10,)
