"""The order of a stream, row by row in plain integers: nothing here comes from the package.

What a run has seen hangs on this order, so it is written here a second time, slow but plain: every
row is looked up alone, the lanes of a mixture are counted from their very first row, and inverses
are found by searching.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class SlowSet:
    """A set: its name, the rows of each of its shards, and the rows of a block."""

    name: str
    sizes: tuple[int, ...]
    block_rows: int


@cache
def stored_rows(rows):
    """(block, row) of all rows as logical blocks have them: full blocks, then the short last
    blocks."""
    full = []
    tails = []
    block = 0

    for size in rows.sizes:
        while size > 0:
            count = min(size, rows.block_rows)
            (full if count == rows.block_rows else tails).extend(
                (block, row) for row in range(count)
            )
            block = block + 1
            size = size - count

    return full + tails


@cache
def permutation(n, key):
    """The keyed permutation of n blocks: twelve rounds, walked until the image is below n."""
    a = 1 + isqrt(n - 1)
    b = -(-n // a)
    images = []

    for x in range(n):
        while True:
            high = x // b
            low = x % b

            for number in range(12):
                word = finalize(key + GOLDEN * (number + 1))
                if number % 2 == 0:
                    high = (high + finalize(word ^ low)) % a
                else:
                    low = (low + finalize(word ^ high)) % b

            x = high * b + low
            if x < n:
                break

        images.append(x)

    return images


@cache
def row_order(n, key):
    """The keyed order of n rows of a block."""
    return sorted(range(n), key=lambda row: finalize(key + GOLDEN * (row + 1)))


@cache
def row_at(rows, seed, lanes, lane, position):
    """Epoch of the set, stored block over all shards and row in it, at a lane's position.

    None: filler.
    """
    stored = stored_rows(rows)
    size = rows.block_rows
    n = len(stored)
    blocks = n // size
    rest = n % size

    def key(purpose, epoch, block):
        return hashed(seed, rows.name, n, size, lanes, purpose, epoch, block)

    epoch, q = divmod(position, -(-n // lanes))
    rounds = blocks // lanes
    left = blocks % lanes
    u, v = divmod(left * size + rest, lanes)

    if q < rounds * size:
        x = q // size * lanes + lane
        i = q % size
    else:
        t = q - rounds * size
        if t >= u + (lane < v):
            return None
        z = lane * u + min(lane, v) + t
        x = rounds * lanes + z // size
        i = z % size

    block = blocks if x == blocks else permutation(blocks, key("blocks", epoch, 0))[x]
    shuffled = row_order(rest if block == blocks else size, key("rows", epoch, block))
    return epoch, *stored[block * size + shuffled[i]]


@dataclass(frozen=True)
class SlowPhase:
    """Sets by number with their shares; `until` counts lane rows, None: endless."""

    sources: tuple[int, ...]
    weights: tuple[int, ...]
    until: int | None = None


@cache
def pattern(weights, period):
    """A mixture's table: whole counts by largest remainders, then always the source with the
    largest deficit."""
    if len(weights) == 1:
        return [0]
    exact = [Fraction(weight * period, sum(weights)) for weight in weights]
    counts = [int(share) for share in exact]
    for source in sorted(range(len(weights)), key=lambda s: (counts[s] - exact[s], s))[
        : period - sum(counts)
    ]:
        counts[source] += 1

    table = []
    taken = Counter()

    for place in range(1, period + 1):
        deficit = [place * count - period * taken[source] for source, count in enumerate(counts)]
        table.append(deficit.index(max(deficit)))
        taken[table[-1]] += 1

    return table


class SlowStream:
    """Every lane of a stream, from its first row on.

    Args:
        sets: by number.
        phases: in order.
        seed: of the order.
        lanes: L.
        period: of the mixtures.
    """

    def __init__(self, sets, phases, seed, lanes, period=4096):
        self._sets = sets
        self._phases = phases
        self._seed = seed
        self.lanes = lanes
        self._period = period
        self._read = [Counter() for _ in range(lanes)]
        self._column = [[] for _ in range(lanes)]

    def at(self, lane, position):
        """Source and row at a lane's position; the row is None where it is filler."""
        column = self._column[lane]
        read = self._read[lane]

        while len(column) <= position:
            now = len(column)
            start = 0

            for phase in self._phases:
                if phase.until is None or now < phase.until:
                    break
                start = phase.until

            table = pattern(phase.weights, self._period)
            source = phase.sources[table[(now - start + lane) % len(table)]]
            column.append(
                (source, row_at(self._sets[source], self._seed, self.lanes, lane, read[source]))
            )
            read[source] += 1

        return column[position]

    def batch(self, position, count):
        """(source, block, row) of a global batch of `count` lane rows, lane by lane.

        -1 for filler.
        """
        cells = [
            self.at(lane, position + ahead) for lane in range(self.lanes) for ahead in range(count)
        ]
        return [[-1, -1, -1] if row is None else [source, *row[1:]] for source, row in cells]


def finalize(x):
    """The 64-bit SplitMix finalizer."""
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hashed(*parts):
    """A 64-bit word of parts, each after its length."""
    raw = [part.to_bytes(8, "little") if isinstance(part, int) else part.encode() for part in parts]
    joined = b"".join(len(part).to_bytes(8, "little") + part for part in raw)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "little")
