"""Rows of which few are short: the same batches as by lists of any length, and most of them without a gather."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream import row_buffer
from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.data.stream.row_buffer import Lists, Padded, RowBuffer, Segment
from clozeline.train.data.stream.row_views import rows_of_segments
from tests.shard_sets import objective, rows, write_set
from tests.train.data.stream.streams import open_stream

WIDTH = 6


def lengths_of(count: int, short: dict[int, int]) -> list[int]:
    return [short.get(number, WIDTH) for number in range(count)]


def delivered(data: Any, **options: Any) -> list[tuple[dict[str, torch.Tensor], list[list[int]]]]:
    with open_stream(data, **options) as stream:
        return [
            ({name: tensor.clone() for name, tensor in batch.tensors.items()}, batch.origin.tolist())
            for _ in range(60)
            for batch in stream.next_step()
        ]


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("token_dtype", ["int64", "uint16"])
def test_batches_are_those_of_ragged_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, token_dtype: str, by_length: bool
) -> None:
    """In one set, in a mixture, and across rounds; blocks of short rows only at the end, and empty rows, among them."""
    short = [{3: 1, 77: 5, 159: 2}, {0: 0, 40: 4}]
    pair = [
        write_set(tmp_path / f"{number}", [rows(range(1, 161), lengths_of(160, part))], block_rows=40,
                  name=f"set-{number}", objective=objective(architecture))
        for number, part in enumerate(short)
    ]  # fmt: skip
    for data in (pair[0], pair[1], [phase_of(pair, (2.0, 1.0), 96), phase_of(pair[:1])]):
        options: Any = {"by_length": by_length, "token_dtype": token_dtype, "global_batch": 16, "micro_batch": 4}
        monkeypatch.setattr(row_buffer, "_SHORT_SHARE", 10**9)  # lists
        expected = delivered(data, **options)
        monkeypatch.setattr(row_buffer, "_SHORT_SHARE", 20)
        for (tensors, origin), (other, other_origin) in zip(delivered(data, **options), expected, strict=True):
            assert origin == other_origin
            assert tensors.keys() == other.keys()
            for name, tensor in tensors.items():
                assert tensor.dtype == other[name].dtype, name
                assert torch.equal(tensor, other[name]), name


@given(st.lists(st.integers(0, WIDTH), min_size=1, max_size=8), st.integers(0, 40), st.randoms())
def test_any_few_short_rows_come_back(short: list[int], added: int, random: Any) -> None:
    """All rows of a load, in shuffled order, whichever are short: also several at its end, and empty ones."""
    lengths = short + [WIDTH] * (row_buffer._SHORT_SHARE * len(short) + added)
    random.shuffle(lengths)
    content = [[number] * length for number, length in enumerate(lengths)]
    order = np.array(random.sample(range(len(lengths)), len(lengths)))
    buffer = RowBuffer(1, len(lengths), ["x"], BufferPool(2))
    ones, origin = np.ones(len(lengths), np.float32), np.zeros((len(lengths), 3), np.int64)
    buffer.put(slice(0, len(lengths)), {"x": Ragged.from_lists(content, np.uint16)}, order, ones, origin)
    buffer.finish()
    assert not isinstance(buffer.column("x"), Lists)
    portion = rows_of_segments([Segment(buffer, 0, len(lengths))], (1, 1, len(lengths)), ["x"], BufferPool(2), {})
    column = portion.micro_batch(0, len(lengths))[0]["x"]
    assert [column[row].tolist() for row in range(len(lengths))] == [content[row] for row in order]


def test_only_a_batch_with_a_short_row_is_ragged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One short row in 160: of 40 batches of 4 rows, 39 are copied as a matrix."""
    shards = write_set(tmp_path, [rows(range(1, 161), lengths_of(160, {77: 5}))], block_rows=40)
    gathered = []
    real = row_buffer.gather

    def gather(*arguments: Any) -> Ragged:
        gathered.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(row_buffer, "gather", gather)
    with open_stream(shards, global_batch=4, micro_batch=4, io_threads=0) as stream:
        shapes = {tuple(stream.next_step()[0].tensors["input_ids"].shape) for _ in range(40)}
    assert len(gathered) == 1
    assert shapes == {(4, WIDTH)}


def test_many_short_rows_stay_lists() -> None:
    buffer = RowBuffer(1, 4, ["x"], BufferPool(2))
    content = Ragged.from_lists([[1, 1], [2], [3], [4, 4]], np.uint16)
    buffer.put(slice(0, 4), {"x": content}, np.arange(4), np.ones(4, np.float32), np.zeros((4, 3), int))
    buffer.finish()
    assert isinstance(buffer.column("x"), Lists)
    assert not isinstance(buffer.column("x"), Padded)
