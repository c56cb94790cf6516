"""Count the tokens of a set by source: the labels that the run's token set stores per document."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.tools.shards.provenance.document_table import uid_keys
from clozeline.tools.shards.provenance.row_search import readable_blocks

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Sources:
    """Source labels of documents: `uids` ascending, 16 bytes each, the code of each, and the label of each code."""

    names: Sequence[str]
    uids: NDArray[np.bytes_]
    codes: NDArray[np.uint16]

    def tokens(self, rows: Rows, tokens: NDArray[np.int64]) -> dict[str, int]:
        """Count tokens by source label; a row belongs to the document of its first token."""
        row_uids = uid_keys(rows.fixed["document_uid"])
        # row of each document in the sorted uids [rows]; rows of unknown documents count as unknown
        index = np.minimum(np.searchsorted(self.uids, row_uids), max(0, len(self.uids) - 1))
        codes = np.full(len(rows), len(self.names), np.int64)
        if len(self.uids):
            known = self.uids[index] == row_uids
            codes[known] = self.codes[index[known]]
        counts = np.bincount(codes, tokens).astype(np.int64)
        return {[*self.names, _UNKNOWN][code]: int(counts[code]) for code in np.flatnonzero(counts)}


def find_sources(shards: ShardSet) -> Sources | None:
    """Read the document sources from the token set itself, or from `encode/` above a set; None without either."""
    if shards.manifest.kind == "tokens":
        return _read(shards)
    for folder in shards.path.resolve().parents:
        path: Path = folder / "encode" / "manifest.json"
        if os.path.lexists(path) and Manifest.load(path).tokenizer.fingerprint == shards.manifest.tokenizer.fingerprint:
            return _read(open_shards(path))
    return None


def _read(tokens: ShardSet) -> Sources:
    uids, codes = [np.empty(0, "S16")], [np.empty(0, np.uint16)]
    for block in readable_blocks(tokens):
        fixed = tokens.read_block(block, columns=("document_uid", "source_group")).fixed
        uids.append(uid_keys(fixed["document_uid"]))
        codes.append(fixed["source_group"].astype(np.uint16))
    joined = np.concatenate(uids)
    order = np.argsort(joined)
    return Sources(tokens.manifest.source_groups, joined[order], np.concatenate(codes)[order])
