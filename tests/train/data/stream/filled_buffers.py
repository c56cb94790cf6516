"""Row buffers with known rows, and the rows that come back out of them."""

from __future__ import annotations

import numpy as np

from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.row_buffer import RowBuffer, Segment
from clozeline.train.data.stream.row_views import BatchRows, rows_of_segments


def placed(widths: list[int], pool: BufferPool) -> RowBuffer:
    """Place one load a lane, of three rows; row r of load l holds the value 10 * l + r, `widths[l]` times."""
    row_buffer = RowBuffer(len(widths), 3, ["x"], pool)
    for lane, width in enumerate(widths):
        rows = Ragged.from_lists([[10 * lane + r] * width for r in range(3)], np.uint16)
        order, origin = np.array([2, 0, 1]), np.zeros((3, 3), np.int64)
        row_buffer.put(slice(3 * lane, 3 * lane + 3), {"x": rows}, order, np.ones(3, np.float32), origin)
    row_buffer.finish()
    return row_buffer


def together(segments: list[Segment], batches: int = 1) -> BatchRows:
    """Return the rows of all lanes, as one or more batches."""
    first, rows = segments[0].row_buffer, sum(segment.stop - segment.start for segment in segments)
    return rows_of_segments(segments, (batches, first.lanes, rows // batches), ["x"], BufferPool(2), {})


def lists(portion: BatchRows, rows: int, start: int = 0) -> list[list[int]]:
    """Return rows `start .. start + rows` of the column."""
    column = portion.micro_batch(start, start + rows)[0]["x"]
    return [row.tolist() for row in (column[n] for n in range(rows))]
