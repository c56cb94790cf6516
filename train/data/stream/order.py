"""Compute the order of one set in closed form: the row in a cell, and the cell of a row.

N rows in blocks of R are dealt to L lanes, one block per lane and round. The blocks that do not
fill a round, and the rows that do not fill a block, are dealt row by row in the epoch's last round.
Every row is read exactly once per epoch; the epoch's last lane row ends with fewer than L filler
rows.

A *position* is a lane row of the set. A *logical block* has R rows: the full blocks of the files
first, then the short last blocks of all files, joined and split into R rows. The remaining rows,
fewer than R, are the *rest*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.seeding import hash64, mix_one, random_bits

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_GOLDEN: Final = 0x9E3779B97F4A7C15
_ROUNDS: Final = 12  # six are visibly biased for fewer than ten elements


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `start .. stop` of a stored block."""

    block: int
    start: int
    stop: int


class LogicalBlocks:
    """Map logical blocks of a set to pieces of stored blocks, and back.

    A stored block of fewer than R rows is a *tail*. Blocks are in (shard, block) order.
    """

    def __init__(self, rows: NDArray[np.integer], block_rows: int) -> None:
        self._rows = block_rows
        # the full blocks, then the tails; and where each ends if all are laid end to end
        self._stored = np.argsort(rows < block_rows, kind="stable")
        self._ends = np.cumsum(rows[self._stored], dtype=np.int64)

    def pieces(self, block: int) -> list[Piece]:
        """Return the stored pieces of a logical block, in row order."""
        start = block * self._rows
        pieces = []
        stop = min(start + self._rows, int(self._ends[-1]))
        number = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            first = int(self._ends[number - 1]) if number else 0
            end = int(self._ends[number])
            pieces.append(Piece(int(self._stored[number]), start - first, min(end, stop) - first))
            start = end
            number = number + 1
        return pieces

    def locate(
        self, block: int, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the stored block of each row of a logical block, and its index in it."""
        pieces = self.pieces(block)
        blocks = np.repeat(
            [piece.block for piece in pieces], [piece.stop - piece.start for piece in pieces]
        )
        indices = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        return blocks[rows], indices[rows]

    def to_logical(self, stored: int, row: int) -> tuple[int, int]:
        """Return the logical block of a stored row, and its index in it."""
        number = int(np.flatnonzero(self._stored == stored)[0])
        return divmod((int(self._ends[number - 1]) if number else 0) + row, self._rows)


@dataclass(frozen=True, slots=True)
class ReadingRound:
    """Lane rows `start .. start + length`, during which every lane stays in its block.

    `skip`: lane rows of the round before `start`; above 0 only if the round does not fit into
    memory at once.
    """

    epoch: int
    number: int
    start: int
    length: int
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """One read of a logical block: the rows `rows` of its shuffled order go to `slots`.

    Slots count lanes x round length, lane by lane.
    """

    epoch: int
    block: int
    rows: NDArray[np.int64] | slice
    slots: NDArray[np.int64] | slice


class FeistelPermutation:
    """A keyed bijection of 0 .. n-1 without tables: the order of an epoch needs no memory.

    Alternating modular rounds on (x // b, x % b) with a * b >= n, walked again while the image is n
    or more; a * b is below n + sqrt(n) + 1, so that is rare (arXiv 2106.06161 uses the same walking
    for shuffles on GPUs).

    Example: `sorted(FeistelPermutation(5, 7)(x) for x in range(5)) == [0, 1, 2, 3, 4]`.
    """

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self._a = isqrt(n - 1) + 1
        self._b = -(-n // self._a)
        self._keys = [mix_one((key + _GOLDEN * (i + 1)) & _MASK) for i in range(_ROUNDS)]

    def __call__(self, x: int) -> int:
        """Return the image of x."""
        while True:
            high, low = divmod(x, self._b)
            for i, key in enumerate(self._keys):
                if i % 2:
                    low = (low + mix_one(key ^ high)) % self._b
                else:
                    high = (high + mix_one(key ^ low)) % self._a
            x = high * self._b + low
            if x < self.n:
                return x

    def inverse(self, y: int) -> int:
        """Return the x whose image is y."""
        while True:
            high, low = divmod(y, self._b)
            for i, key in reversed(list(enumerate(self._keys))):
                if i % 2:
                    low = (low - mix_one(key ^ high)) % self._b
                else:
                    high = (high - mix_one(key ^ low)) % self._a
            y = high * self._b + low
            if y < self.n:
                return y


def row_permutations(n: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return an order of n rows for each key, [keys, n]: the argsort of 64-bit hashes."""
    return np.argsort(random_bits(keys, 0, n), axis=1)


class BlockOrder:
    """The order of N rows of one set, named as in its manifest, in blocks of R, over L lanes.

    Example: 10 rows in blocks of 4 on 2 lanes give epochs of 5 lane rows: 4 of a normal round, 1 of
    the last.
    """

    def __init__(self, name: str, rows: int, block_rows: int, seed: int, lanes: int) -> None:
        if rows < 1:
            raise ConfigurationError(f"shard set '{name}' has no rows to stream")
        self._identity = (seed, name, rows, block_rows, lanes)
        self.rows = rows
        self.block_rows = block_rows
        self.lanes = lanes
        self.blocks, self.rest = divmod(rows, block_rows)
        self.rounds, remaining = divmod(self.blocks, lanes)
        # in the last round, each lane has `share` rows, and the first `longer` lanes one more
        self._share, self._longer = divmod(remaining * block_rows + self.rest, lanes)
        self.lane_rows = -(-rows // lanes)
        """P: lane rows of an epoch, filler included."""
        self._permutation = lru_cache(maxsize=4)(
            lambda epoch: FeistelPermutation(self.blocks, self.key("blocks", epoch))
        )

    def key(self, purpose: str, epoch: int, block: int = 0) -> int:
        """Return the 64-bit key of a choice."""
        return hash64(*self._identity, purpose, epoch, block)

    def block(self, epoch: int, index: int) -> int:
        """Return the logical block at an index of the epoch's order; the rest is always last."""
        return self.blocks if index == self.blocks else self._permutation(epoch)(index)

    def row_order(self, epoch: int, block: int) -> NDArray[np.int64]:
        """Return the shuffled order of a logical block's rows."""
        return self.row_orders(epoch, [block])[0]

    def row_orders(self, epoch: int, blocks: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return the shuffled orders of the rows of logical blocks.

        Only the last block may be the rest.
        """
        keys = np.array([self.key("rows", epoch, block) for block in blocks], np.uint64)
        full_count = len(blocks) - (blocks[-1] == self.blocks)
        return [
            *row_permutations(self.block_rows, keys[:full_count]),
            *row_permutations(self.rest, keys[full_count:]),
        ]

    def round_at(self, position: int, limit: int | None = None) -> ReadingRound:
        """Return the round of a position, or its part of at most `limit` lane rows."""
        epoch, q = divmod(position, self.lane_rows)
        number = min(q // self.block_rows, self.rounds)
        round_start = number * self.block_rows
        length = self.block_rows if number < self.rounds else self.lane_rows - round_start
        limit = limit or length
        skip = (q - round_start) // limit * limit
        return ReadingRound(
            epoch,
            number,
            epoch * self.lane_rows + round_start + skip,
            min(limit, length - skip),
            skip,
        )

    def loads(self, round_: ReadingRound, first: int, last: int) -> Iterator[Load]:
        """Yield the loads of lanes `first .. last` in one round; each logical block once."""
        # one block per lane
        if round_.number < self.rounds:
            for lane in range(first, last):
                start = (lane - first) * round_.length
                block = self.block(round_.epoch, round_.number * self.lanes + lane)
                rows = slice(round_.skip, round_.skip + round_.length)
                yield Load(round_.epoch, block, rows, slice(start, start + round_.length))
            return

        # last round: z [lanes, t] is the index of a row in it; each lane has a contiguous share,
        # which may span blocks
        lanes = np.arange(first, last)[:, None]
        t = np.arange(round_.skip, round_.skip + round_.length)
        z = lanes * self._share + np.minimum(lanes, self._longer) + t
        slots = np.flatnonzero(t < self._share + (lanes < self._longer))
        indices, i = np.divmod(z.reshape(-1)[slots], self.block_rows)
        blocks, starts = np.unique(indices, return_index=True)
        parts = zip(
            blocks.tolist(), np.split(i, starts[1:]), np.split(slots, starts[1:]), strict=False
        )
        for index, block_rows, targets in parts:  # no parts if all rows of these lanes are filler
            yield Load(
                round_.epoch,
                self.block(round_.epoch, self.rounds * self.lanes + index),
                block_rows,
                targets,
            )

    def where(self, block: int, row: int, epoch: int) -> tuple[int, int]:
        """Return the (lane, position) of a row of a logical block in an epoch."""
        i = int(np.flatnonzero(self.row_order(epoch, block) == row)[0])
        index = block if block == self.blocks else self._permutation(epoch).inverse(block)
        if index < self.rounds * self.lanes:
            number, lane = divmod(index, self.lanes)
            q = number * self.block_rows + i
        else:
            z = (index - self.rounds * self.lanes) * self.block_rows + i
            longer = self._longer * (self._share + 1)
            lane, t = divmod(z, self._share + 1) if z < longer else divmod(z - longer, self._share)
            lane = lane + self._longer * (z >= longer)
            q = self.rounds * self.block_rows + t

        return lane, epoch * self.lane_rows + q
