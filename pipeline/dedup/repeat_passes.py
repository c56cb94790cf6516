"""Passes that find repeated pieces of texts: hash the pieces of each part, then decide range by range of the hashes."""

from typing import Final

import numpy as np

from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_rows, uid_column, write_rows
from clozeline.pipeline.dedup.components import run_starts
from clozeline.pipeline.dedup.counts import DedupCounts, PieceCounts, read_by
from clozeline.pipeline.dedup.parts import PIECE_DROP, Parts
from clozeline.pipeline.dedup.removal import Removal, Removals
from clozeline.pipeline.dedup.repeats import Pieces
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.seeding import hash64

_PIECE: Final = (("hash", "<u8"), ("uid", "S16"), ("part", "<u4"), ("row", "<u4"), ("first", "<u4"))
"""Row of a piece: its hash, its document by uid and by part and row, and its first unit there."""


class PieceHashes(Pass[DedupCounts]):
    """Per part: send the hashes of the pieces of the documents that earlier types leave to ranges of hashes.

    Texts with a translation are neither counted nor changed: their sides would no longer agree.
    """

    def __init__(self, removals: Removals, pieces: Pieces) -> None:
        self.removals, self.pieces = removals.before(pieces), pieces
        self.name, self.units = f"{pieces.NAME}-hashes", removals.parts.own

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts, name = self.removals.parts, self.pieces.NAME
        removal = Removal(self.removals, unit)
        hashes, firsts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        uids, rows, sizes, pairs = list[bytes](), list[int](), list[int](), 0
        for row, document in removal.documents():
            if document.target_text is not None:
                pairs += 1
                continue
            of_pieces, first = self.pieces.hashes(document.text, document.language)
            if self.pieces.within == "source":
                of_pieces = of_pieces ^ np.uint64(hash64("source", document.source_group))
            hashes.append(of_pieces)
            firsts.append(first)
            uids.append(document.uid)
            rows.append(row)
            sizes.append(len(first))
        # documents [n] repeated for each of their pieces [m]
        columns = {"hash": np.concatenate(hashes), "first": np.concatenate(firsts)}
        columns |= {"uid": np.repeat(uid_column(uids), sizes), "row": np.repeat(np.array(rows, np.uint32), sizes)}
        columns["part"] = np.full(len(columns["row"]), unit, np.uint32)
        order = np.argsort(columns["hash"], kind="stable")
        packed = pack_rows(_PIECE, columns)[order]
        bounds = hash_bounds(columns["hash"][order], parts.ranges)
        write_rows(output, parts.exchange(f"{name}-hashes"), unit, packed, bounds)
        amounts: PieceCounts = {"documents": len(uids) + pairs, "pairs": pairs, "hashed": len(packed)}
        return {"pieces": {name: amounts}, "taken": read_by(self.name, removal.taken)}


class PieceDrops(Pass[DedupCounts]):
    """Per range of hashes: find the pieces that repeat, and send those to remove to their parts."""

    def __init__(self, parts: Parts, pieces: Pieces) -> None:
        self.parts, self.pieces = parts, pieces
        self.name, self.units = f"{pieces.NAME}-drops", parts.ranges

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts, name = self.parts, self.pieces.NAME
        rows = read_rows(parts.folder, parts.exchange(f"{name}-hashes"), unit, _PIECE)
        rows = rows[np.lexsort((rows["first"], rows["uid"], rows["hash"]))]
        is_first = run_starts(rows["hash"])
        counted, limit = np.ones(len(rows), dtype=bool), 1
        if self.pieces.max_documents is not None:
            # count each document once, not each of its pieces
            counted, limit = is_first | run_starts(rows["uid"]), self.pieces.max_documents
        groups = np.cumsum(is_first) - 1
        repeated = np.bincount(groups, weights=counted)[groups] > limit if len(rows) else is_first
        removed = rows[repeated & ~is_first] if self.pieces.keep_first else rows[repeated]
        # runs of units [first, last) of the documents, by part
        removed = removed[np.lexsort((removed["first"], removed["row"], removed["part"]))]
        bounds = np.searchsorted(removed["part"], np.arange(parts.own + 1)).tolist()
        columns = {"row": removed["row"], "first": removed["first"]}
        columns["last"] = removed["first"] + np.uint32(self.pieces.units)
        write_rows(output, parts.exchange(f"{name}-drops"), unit, pack_rows(PIECE_DROP, columns), bounds)
        amounts: PieceCounts = {"compared": len(rows), "repeated": int(repeated.sum()), "dropped": len(removed)}
        return {"pieces": {name: amounts}, "sent": {f"{name}-drops": len(removed)}}
