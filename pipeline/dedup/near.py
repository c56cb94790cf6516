"""Near deduplication: MinHash signatures per part, candidates per range of keys, then clusters.

A text is the set of its word n-grams in the match form; of tables and programs, digits and symbols
count. Each of `bands * rows` hash functions keeps its minimum over the set. Two texts agree in a
minimum with probability J, the Jaccard similarity of their sets. Texts that agree in all rows of a
band are candidates: P(J) = 1 - (1 - J**rows) ** bands, one half at J = 0.685 for 14 x 8 (Broder
1997; bands: Leskovec et al., chapter 3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.errors import ConfigurationError
from clozeline.native import minhash
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    COPY,
    DROP,
    OTHER_PRIORITY,
    DedupCounts,
    Parts,
    Schema,
    Uids,
    choose_kept,
    find_group_starts,
    find_hash_bounds,
    find_number_bounds,
    locate_keys,
    pack_rows,
    read_numbered_rows,
    smallest_uids,
    uid_column,
    write_clusters,
    write_rows,
)
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import KnownRecords, Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.normal_form import (
    MATCH_VERSION,
    MatchForm,
    choose_match_form,
    match_words,
)
from clozeline.pipeline.text.word_hashes import WordHashes, hash_ngrams
from clozeline.recorded_file import find_file
from clozeline.seeding import mix

NEAR_VERSION: Final = 3
"""Raised when a signature, or the rule that forms clusters, and so a decision, changes."""
MOST_CANDIDATES: Final = 1 << 30
"""Maximum number of band keys of candidates that one process holds in memory."""

_SHINGLE_BLOCK: Final = 256  # shingles hashed at once: 256 x 112 x 8 bytes fit into the L2 cache
_PAIR_BLOCK: Final = 1 << 16  # pairs of sketches compared at once
_MOST_ROUNDS: Final = 32
"""Maximum rounds of splitting components; documents that are still pending after them are kept,
so that the time is linear."""
_KEY_ROW: Final = (("key", "<u8"), ("row", "<u4"))
"""Row of a band key: the key, and the row of its document in its part."""
_CANDIDATE_ROW: Final = (("starts", "?"), ("part", "<u4"), ("row", "<u4"))
"""Row of a document in a group that shares a band key; `starts` marks the first row of a group."""


class MinHash:
    """Computes the MinHash signatures of texts.

    A text is the set of its shingles of `ngram` words; a shorter text is one shingle.
    """

    def __init__(self, ngram: int = 5, bands: int = 14, rows: int = 8, seed: int = 1) -> None:
        self.ngram = ngram
        self.bands = bands
        self.rows = rows
        # raw bits never change between numpy versions, unlike the methods of Generator
        raw = np.random.PCG64(seed).random_raw(2 * bands * rows).reshape(2, -1)
        # odd factors, so that multiplication modulo 2**64 is a bijection
        self._factors = raw[0] | np.uint64(1)
        self._offsets = raw[1]
        self._words: Mapping[MatchForm, WordHashes] = {
            "words": WordHashes(),
            "symbols": WordHashes("symbols"),
        }
        self._buffer = np.empty((_SHINGLE_BLOCK, bands * rows), dtype=np.uint64)

    def shingles(self, text: str) -> UInt64:
        """Return a 64-bit hash per word n-gram; repeated ones do not change a minimum."""
        form = choose_match_form(text)
        hashes = self._words[form].hashes(text)
        if len(hashes) < self.ngram:
            words = " ".join(match_words(text, form)) or text
            return np.array([xxhash.xxh3_64_intdigest(words.encode())], dtype=np.uint64)
        native = minhash.shingles(hashes, self.ngram)
        return mix(hash_ngrams(hashes, self.ngram)) if native is None else native

    def signature(self, text: str) -> UInt64:
        """Return the minima of all hash functions over the shingles, shape [bands * rows]."""
        shingles = self.shingles(text)
        if (native := minhash.minima(shingles, self._factors, self._offsets)) is not None:
            return native

        minima = np.full(len(self._factors), 2**64 - 1, dtype=np.uint64)

        for start in range(0, len(shingles), _SHINGLE_BLOCK):
            block = shingles[start : start + _SHINGLE_BLOCK]
            values = self._buffer[: len(block)]
            np.multiply(block[:, None], self._factors, out=values)
            np.add(values, self._offsets, out=values)
            np.minimum(minima, values.min(axis=0), out=minima)

        return minima

    def band_keys(self, signatures: UInt64) -> UInt64:
        """Return a 64-bit key per band, shape [..., bands], of signatures [..., bands * rows].

        The index of the band is the seed of its hash.
        """
        keys = minhash.band_keys(
            signatures.reshape(-1, self.bands * self.rows), self.bands, self.rows
        )
        if keys is None:
            raw = memoryview(signatures.tobytes())
            width = 8 * self.rows
            bands = range(len(raw) // width)
            hashes = [
                xxhash.xxh3_64_intdigest(raw[b * width : (b + 1) * width], seed=b % self.bands)
                for b in bands
            ]
            keys = np.array(hashes, dtype=np.uint64)

        return keys.reshape(*signatures.shape[:-1], self.bands)


def _document_schema(options: NearConfig) -> Schema:
    """Return the row type of a document; 16 bits of each minimum suffice to estimate similarity."""
    return ("uid", "S16"), ("priority", "<i8"), ("sketch", f"({options.bands * options.rows},)<u2")


def _documents_file(part: str) -> str:
    return f"tmp/near-documents/{part}.rows"


@dataclass
class NearSignatures(Pass[DedupCounts]):
    """Per part: write the sketches of documents that exact dedup kept, and send their band keys."""

    units: int
    parts: Parts
    config: NearConfig
    after_exact: bool
    name: str = "near-signatures"

    def unit_name(self, unit: int) -> str:
        return self.parts.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        options = self.config
        return {
            "version": NEAR_VERSION + MATCH_VERSION,
            "minhash": [options.ngram, options.bands, options.rows],
            "ranges": self.parts.ranges,
            "is_kept": unit >= self.parts.local_parts,
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        documents = {"documents": self.parts.digest(unit, known)}
        if not self.after_exact:
            return documents
        return {**documents, "exact drops": self.parts.digest_pieces("exact-drops", known, unit)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        options = self.config
        schema = _document_schema(options)
        minhash = MinHash(options.ngram, options.bands, options.rows)
        keys = [np.empty((0, options.bands), np.uint64)]
        documents = [np.empty(0, np.dtype(list(schema)))]
        dropped = (
            self.parts.read_drops("exact-drops", unit)[0] if self.after_exact else uid_column([])
        )

        for batch in read_batches(
            self.parts.find_documents(unit), ("uid", "text", "target_text", "n_chars")
        ):
            kept = ~np.isin(uid_column(batch.column("uid").to_pylist()), dropped)
            if not kept.any():
                continue
            batch = batch.filter(pa.array(kept))
            pairs = zip(
                batch.column("text").to_pylist(),
                batch.column("target_text").to_pylist(),
                strict=True,
            )

            texts = [text if target is None else f"{text}\n{target}" for text, target in pairs]
            signatures = np.stack([minhash.signature(text) for text in texts])
            keys.append(minhash.band_keys(signatures))
            uids = uid_column(batch.column("uid").to_pylist())
            priority = self.parts.priorities(unit, batch)
            documents.append(
                pack_rows(
                    schema,
                    {"uid": uids, "priority": priority, "sketch": signatures.astype(np.uint16)},
                )
            )

        rows = np.concatenate(documents)
        name = self.unit_name(unit)
        with output.file(_documents_file(name)) as path:
            path.write_bytes(rows.tobytes())

        # band keys [documents * bands], sorted by (key, row)
        flat = np.concatenate(keys).reshape(-1)
        owners = np.repeat(np.arange(len(rows), dtype=np.uint32), options.bands)
        order = np.lexsort((owners, flat))
        columns: dict[str, NDArray[Any]] = {"key": flat[order], "row": owners[order]}
        bounds = find_hash_bounds(columns["key"], self.parts.ranges)
        write_rows(
            output, self.parts.shuffle("near-keys"), name, pack_rows(_KEY_ROW, columns), bounds
        )
        counts: DedupCounts = {"near": {"keys": len(flat)}}
        if unit >= self.parts.local_parts:
            return counts | {"other": {"signatures": len(rows)}}
        return counts | {"signatures": len(rows)}


@dataclass
class NearCandidates(Pass[DedupCounts]):
    """Per range of band keys: send the documents that share a key, group by group."""

    units: int
    parts: Parts
    name: str = "near-candidates"

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"signatures": self.parts.digest_files("near-keys", known)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows, part = read_numbered_rows(
            self.parts.folder, self.parts.shuffle("near-keys"), unit, _KEY_ROW
        )
        order = np.argsort(rows["key"], kind="stable")
        rows = rows[order]
        starts = find_group_starts(rows["key"])
        # a key that starts here, and whose next row starts another key, has one document
        shared = ~(starts & np.append(starts[1:], True))
        columns = {
            "starts": starts[shared],
            "part": part[order][shared],
            "row": rows["row"][shared],
        }

        chosen = pack_rows(_CANDIDATE_ROW, columns)
        shuffle = self.parts.shuffle("near-candidates")
        write_rows(output, shuffle, self.unit_name(unit), chosen, [0, len(chosen)])
        return {"near": {"compared_keys": len(rows), "candidates": len(chosen)}}


@dataclass
class NearClusters(Pass[DedupCounts]):
    """A single unit: join candidates to clusters, write them, and send drops to their parts.

    All candidates are in memory at once: about 75 bytes each, and 330 per document.
    """

    parts: Parts
    config: NearConfig
    after_exact: bool
    name: str = "near-clusters"
    units: int = 1

    def options(self, unit: int) -> Mapping[str, Any]:
        return {
            "version": NEAR_VERSION,
            "verify": self.config.verify,
            "ranges": self.parts.ranges,
            "local_parts": self.parts.local_parts,
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        pass_digest = known.pass_digest(self.parts.folder, "near-signatures")
        digests = {
            "signatures": pass_digest,
            "candidates": self.parts.digest_files("near-candidates", known),
        }
        if self.after_exact:
            digests["exact copies"] = self.parts.digest_files("exact-kept", known)
        return digests

    def run(self, unit: int, output: Output) -> DedupCounts:
        # nodes are documents (part << 32 | row), then indices into the sorted nodes
        rows = self._read_candidates()
        names = rows["part"].astype(np.uint64) << np.uint64(32) | rows["row"]
        nodes, holders = np.unique(names, return_inverse=True)
        del names
        documents = self._read_documents(nodes)
        uids = np.ascontiguousarray(documents["uid"])
        priority = np.ascontiguousarray(documents["priority"])

        groups = np.cumsum(rows["starts"], dtype=np.uint32)
        kept, similarity = choose_representatives(
            groups, holders, uids, priority, documents["sketch"], self.config.verify
        )
        dropped = np.flatnonzero(kept != np.arange(len(uids)))
        members = np.flatnonzero(np.isin(kept, kept[dropped]))
        self._write_clusters(output, members, kept, uids, similarity)

        part = (nodes[dropped] >> np.uint64(32)).astype(np.uint32)
        self._send_drops(
            output, pack_rows(DROP, {"uid": uids[dropped], "kept": uids[kept[dropped]]}), part
        )
        return {
            "near": {
                "compared": len(rows),
                "members": len(nodes),
                "clusters": len(members) - len(dropped),
                "dropped": len(dropped),
            }
        }

    def _read_candidates(self) -> NDArray[Any]:
        shuffle = self.parts.shuffle("near-candidates")
        dtype = np.dtype(list(_CANDIDATE_ROW))
        pieces = list[bytes]()
        size = 0

        for _, piece in shuffle.read(self.parts.folder, 0):
            pieces.append(piece)
            size += len(piece) // dtype.itemsize
            if size > MOST_CANDIDATES:
                raise ConfigurationError(
                    f"dedup.near: documents share more than {MOST_CANDIDATES:,} band keys, the "
                    "most that one process can hold: raise near.rows, so that less similar "
                    "documents share none, or clean the crawls one by one, each with "
                    "dedup.against=EARLIER_OUTPUT"
                )

        return np.frombuffer(b"".join(pieces), dtype)

    def _read_documents(self, nodes: UInt64) -> NDArray[Any]:
        """Return the row of each node, from the files of the parts."""
        dtype = np.dtype(list(_document_schema(self.config)))
        documents = np.empty(len(nodes), dtype)
        folder = self.parts.folder
        bounds = find_number_bounds(nodes >> np.uint64(32), self.parts.units)
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            name = self.parts.names[part]
            file = find_file(folder, f"near-signatures/{name}", _documents_file(name))
            inside = slice(bounds[part], bounds[part + 1])
            documents[inside] = np.frombuffer(file.buffer(), dtype)[
                nodes[inside] & np.uint64(0xFFFFFFFF)
            ]
        return documents

    def _write_clusters(
        self,
        output: Output,
        members: Int64,
        kept: Int64,
        uids: Uids,
        similarity: NDArray[np.float32],
    ) -> None:
        names = uids[members][smallest_uids(kept[members], uids[members])]
        order = np.argsort(names, kind="stable")
        members = members[order]
        names = names[order]
        columns = {"cluster": names, "uid": uids[members], "kept": kept[members] == members}
        rows = pack_rows(CLUSTER, columns | {"similarity": similarity[members]})
        bounds = find_hash_bounds(names, self.parts.ranges)
        for number in range(self.parts.ranges):
            with output.file(f"clusters/near/{number:06d}.arrow") as path:
                write_clusters(path, rows[bounds[number] : bounds[number + 1]])

    def _send_drops(self, output: Output, drops: NDArray[Any], part: NDArray[np.uint32]) -> None:
        """Send drops to their parts, and to parts with exact copies of a dropped document."""
        if self.after_exact:
            order = np.argsort(drops["uid"])
            drops = drops[order]
            part = part[order]
            # copies of a dropped document, which exact dedup removed, name the document kept
            # instead
            more = [(drops, part)]
            for _, piece in self.parts.shuffle("exact-kept").read(self.parts.folder, 0):
                copies = np.frombuffer(piece, np.dtype(list(COPY)))
                index, present = locate_keys(drops["uid"], copies["uid"])
                more.append((drops[index[present]], copies["part"][present]))
            drops, part = (np.concatenate(column) for column in zip(*more, strict=True))

        order = np.lexsort((drops["uid"], part))
        bounds = find_number_bounds(part[order], self.parts.units)
        write_rows(output, self.parts.shuffle("near-drops"), "000000", drops[order], bounds)


def choose_representatives(
    groups: NDArray[Any],
    nodes: Int64,
    uids: Uids,
    priority: Int64,
    sketches: NDArray[np.uint16],
    verify: float,
) -> tuple[Int64, NDArray[np.float32]]:
    """Return the kept row for each of n documents, and the similarity to that row.

    The row of a kept document is itself. The result depends on the set of documents, not their
    order.

    The representative of a component is the document of highest priority (ties: smallest uid).
    Members less similar to it than `verify` leave, form new components by the band keys they share,
    and so on. This breaks chains: of A ~ B ~ C where A and C differ, C is not dropped for A. With
    `verify` 0, no component is split.

    `groups` [m] identify band keys, equal ones next to each other; `nodes` [m] are the rows with
    each key, below n. Uids of 16 bytes [n], priorities [n] and sketches [n, functions] have a row
    per document.
    """
    kept = np.arange(len(uids), dtype=np.int64)
    similarity = np.ones(len(uids), dtype=np.float32)

    for _ in range(_MOST_ROUNDS):
        # components of the pending documents, and the representative of each
        left, right = star_edges(groups, nodes)
        if not len(left):
            break

        pending = np.zeros(len(uids), dtype=bool)
        pending[left] = pending[right] = True
        active = np.flatnonzero(pending)
        numbers = np.cumsum(pending) - 1
        labels = find_components(len(active), numbers[left], numbers[right])
        representatives = active[choose_kept(labels, priority[active], uids[active])]

        # a document of the other output always stays: it waits until it is a representative itself
        stays = (priority[active] == OTHER_PRIORITY) & (representatives != active)
        # members close enough to their representative are decided; the others stay pending
        similarities = estimate_similarities(sketches, active, representatives)
        close = ~stays & (similarities >= verify)
        kept[active[close]] = representatives[close]
        similarity[active[close]] = similarities[close]
        pending[active[close]] = False
        groups = groups[pending[nodes]]
        nodes = nodes[pending[nodes]]

    return kept, similarity


def star_edges(groups: NDArray[np.generic], nodes: Int64) -> tuple[Int64, Int64]:
    """Return edges from the first node of each group to the others: k - 1 edges for k members.

    groups [7, 7, 7, 9], nodes [3, 1, 5, 4] -> left [3, 3], right [1, 5]
    """
    starts = find_group_starts(groups)
    centers = nodes[starts][np.cumsum(starts) - 1]
    others = centers != nodes
    return centers[others], nodes[others]


def find_components(count: int, left: Int64, right: Int64) -> Int64:
    """Return the smallest node that each of `count` nodes can reach, shape [count].

    Each round attaches the larger root of every edge to the smallest neighboring root, then follows
    pointers to the roots. Edges inside a component are dropped, so later rounds are cheaper.

    count 5, edges 3-1, 1-4 -> [0, 1, 2, 1, 1]
    """
    labels = np.arange(count, dtype=np.int64)

    while True:
        roots_left = labels[left]
        roots_right = labels[right]
        is_separate = roots_left != roots_right
        if not is_separate.any():
            return labels
        left = roots_left[is_separate]
        right = roots_right[is_separate]
        np.minimum.at(labels, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(jumped := labels[labels], labels):
            labels = jumped


def estimate_similarities(
    sketches: NDArray[np.uint16], left: Int64, right: Int64
) -> NDArray[np.float32]:
    """Return the estimated Jaccard similarity of pairs of rows of sketches [n, functions].

    The standard error is below 0.05; low bits are enough (b-bit MinHash, arXiv 0910.3349).
    """
    similarity = np.empty(len(left), np.float32)
    for start in range(0, len(left), _PAIR_BLOCK):
        pairs = slice(start, start + _PAIR_BLOCK)
        similarity[pairs] = np.mean(
            sketches[left[pairs]] == sketches[right[pairs]], axis=1, dtype=np.float32
        )
    return similarity
