"""Passes that confirm repeated windows of words: send their words to one range, compare, and find how far runs go."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_rows, uid_column, write_rows
from clozeline.pipeline.dedup.components import run_starts
from clozeline.pipeline.dedup.counts import DedupCounts, PieceCounts, read_by
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.dedup.removal import Removal, Removals
from clozeline.pipeline.dedup.repeat_passes import PIECE, find_repeats, send_runs
from clozeline.pipeline.dedup.repeats import Windows
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output

_SHARED: Final = (("row", "<u4"), ("first", "<u4"), ("hash", "<u8"))
"""Row of a window whose hash another one has: row of its document in the part, first word, and hash."""


class SharedWindows(Pass[DedupCounts]):
    """Per range of hashes: ask the parts for the words of the windows whose hash occurs again."""

    def __init__(self, parts: Parts, windows: Windows) -> None:
        self.parts, self.windows = parts, windows
        self.name, self.units = "windows-shared", parts.ranges

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows, repeated, _ = find_repeats(self.parts, self.windows, unit)
        shared = rows[repeated]
        shared = shared[np.lexsort((shared["first"], shared["row"], shared["part"]))]
        bounds = np.searchsorted(shared["part"], np.arange(self.parts.own + 1)).tolist()
        packed = pack_rows(_SHARED, {name: shared[name] for name, _ in _SHARED})
        write_rows(output, self.parts.exchange("windows-shared"), unit, packed, bounds)
        amounts: PieceCounts = {"compared": len(rows), "repeated": len(shared)}
        return {"pieces": {"windows": amounts}, "sent": {"windows-shared": len(shared)}}


class WindowWords(Pass[DedupCounts]):
    """Per part: send the words of shared windows, and as many on both sides as a run can start before a kept window."""

    def __init__(self, removals: Removals, windows: Windows) -> None:
        self.removals, self.windows = removals.before(windows), windows
        self.name, self.units = "windows-words", removals.parts.own

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts, around = self.removals.parts, self.windows.positions - 1
        shared = np.sort(read_rows(parts.folder, parts.exchange("windows-shared"), unit, _SHARED))
        removal = Removal(self.removals, unit)
        uids, words = list[bytes](), [np.empty((0, self.windows.units + 2 * around), np.uint64)]
        for row, document in removal.documents():
            first, last = np.searchsorted(shared["row"], (row, row + 1))
            if first < last:
                # windows [n, around + units + around]; beyond the ends of the text 0, which equals nothing
                padded = np.pad(self.windows.word_hashes(document.text), around)
                rows = np.lib.stride_tricks.sliding_window_view(padded, self.windows.units + 2 * around)
                words.append(rows[shared["first"][first:last]])
                uids += [document.uid] * int(last - first)
        columns = {name: shared[name] for name, _ in _SHARED} | {"uid": uid_column(uids)}
        columns |= {"part": np.full(len(uids), unit, np.uint32), "words": np.concatenate(words)}
        order = np.argsort(shared["hash"], kind="stable")
        bounds = hash_bounds(shared["hash"][order], parts.ranges)
        packed = pack_rows(_schema(self.windows), columns)[order]
        write_rows(output, parts.exchange("windows-words"), unit, packed, bounds)
        taken = read_by(self.name, {**removal.taken, "windows-shared": len(shared)})
        return {"taken": taken, "sent": {"windows-words": len(packed)}}


class WindowRuns(Pass[DedupCounts]):
    """Per range of hashes: remove the run of words around each window that an earlier one has, word by word."""

    def __init__(self, parts: Parts, windows: Windows) -> None:
        self.parts, self.windows = parts, windows
        self.name, self.units = "windows-drops", parts.ranges

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows = read_rows(self.parts.folder, self.parts.exchange("windows-words"), unit, _schema(self.windows))
        rows = rows[np.lexsort((rows["first"], rows["uid"], rows["hash"]))]
        is_first = run_starts(rows["hash"])
        # words [n, around + units + around] that equal those of the first window of the hash
        earlier = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        equal = (rows["words"] == rows["words"][earlier]) & (rows["words"] != 0)
        around, units = self.windows.positions - 1, self.windows.units
        confirmed = equal[:, around : around + units].all(axis=1) & ~is_first
        before = _leading(equal[confirmed, :around][:, ::-1])
        after = _leading(equal[confirmed, around + units :])
        removed, first = rows[confirmed], rows["first"][confirmed].astype(np.int64)
        send_runs(self.parts, "windows", output, unit, removed, first - before, first + units + after)
        amounts: PieceCounts = {"dropped": len(removed)}
        return {
            "pieces": {"windows": amounts}, "taken": read_by(self.name, {"windows-words": len(rows)}),
            "sent": {"windows-drops": len(removed)},
        }  # fmt: skip


def _leading(equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many values of each row are true before the first false one, shape [n]."""
    leading: NDArray[np.int64] = np.cumprod(equal, axis=1, dtype=np.int64).sum(axis=1)
    return leading


def _schema(windows: Windows) -> tuple[tuple[str, str], ...]:
    return *PIECE, ("words", f"({windows.units + 2 * (windows.positions - 1)},)<u8")
