from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from clozeline.errors import CheckpointError
from clozeline.train.checkpoint.format import part_name, tiling_problem
from clozeline.train.checkpoint.part_reader import CheckpointReader, check_files
from tests.train.checkpoint.test_format import write_parts


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


def test_a_buffer_is_in_the_first_part(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 4, 1)
    values = torch.arange(4.0)
    save_file({"weight/p": values, "buffer/b": values.long()}, tmp_path / part_name(0))
    assert CheckpointReader(tmp_path, index).buffer("b", [4]).tolist() == [0, 1, 2, 3]
    with pytest.raises(CheckpointError, match=r"buffer b has shape \[4\], not \[2, 2\]"):
        CheckpointReader(tmp_path, index).buffer("b", [2, 2])


def test_files_are_compared(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 100, 2)
    part = tmp_path / part_name(1)
    whole = part.read_bytes()
    check_files(tmp_path, index.files, only=index.files)
    part.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=rf"part-00001.*expected {len(whole)} bytes, got {len(whole) - 1}"):
        check_files(tmp_path, index.files, only=index.files)
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"part-00001.*corrupted"):
        check_files(tmp_path, index.files, only=index.files)
    part.unlink()
    with pytest.raises(CheckpointError, match=r"part-00001.*No such file"):
        check_files(tmp_path, index.files, only=index.files)


def test_reader_names_what_is_missing(tmp_path: Path) -> None:
    index = write_parts(tmp_path, 10, 2)
    reader = CheckpointReader(tmp_path, index)
    with pytest.raises(CheckpointError, match="no exp_avg of parameter p"):
        reader.read("exp_avg", "p", 0, 1)
    with pytest.raises(CheckpointError, match="no weight of parameter q"):
        reader.read("weight", "q", 0, 1)
    with pytest.raises(CheckpointError, match="lacks elements"):
        reader.read("weight", "p", 8, 5)
    assert reader.parameter("weight", "p").shape == (10,)
