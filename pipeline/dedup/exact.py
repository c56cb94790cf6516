"""Exact deduplication by hashes of the stored text, the match form, or the URL.

Hashes are sent to ranges, and equal hashes are found range by range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import Bool
from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.config import Key
from clozeline.pipeline.dedup.parts import (
    COPY,
    DROP,
    DedupCounts,
    Parts,
    RangePass,
    Uids,
    build_clusters,
    choose_kept,
    find_group_starts,
    find_hash_bounds,
    find_number_bounds,
    locate_made,
    pack_rows,
    read_numbered_rows,
    uid_column,
    write_clusters,
    write_rows,
)
from clozeline.pipeline.execution.shuffle import PieceFile
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import KnownRecords, Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.hosts import extract_host
from clozeline.pipeline.text.normal_form import MATCH_VERSION, cut_marks, match_words

EXACT_VERSION: Final = 4
"""Raised when a hash, and so a decision, changes."""
_PATH_FRAGMENT_STARTS: Final = ("/", "!")
"""First characters of a URL fragment that is the path of a page."""
_COLUMNS: Final = ("uid", "text", "target_text", "url", "n_chars")
_HASH_ROW: Final = (("hash", "S16"), ("uid", "S16"), ("priority", "<i8"))
_digest: Callable[[bytes | memoryview], bytes] = xxhash.xxh3_128_digest


def hash_contents(batch: pa.RecordBatch, key: Key) -> tuple[Uids, Bool]:
    """Return the XXH3-128 of each document's key, 16 bytes [n], and whether it has one, bool [n].

    A document without a URL has no key; neither has a document if its text, or one side of a pair,
    has no words to match. The key of a pair covers both sides. The hash does not resist crafted
    collisions.
    """
    present = np.ones(len(batch), dtype=bool)

    if key == "text" and batch.column("target_text").null_count == len(batch):
        # hash the UTF-8 bytes in the Arrow buffer, without Python strings
        texts = batch.column("text")
        _, offsets_buffer, data = texts.buffers()
        view = memoryview(data) if data is not None else memoryview(b"")
        offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[
            texts.offset : texts.offset + len(texts) + 1
        ].tolist()
        digests = [_digest(view[start:end]) for start, end in pairwise(offsets)]
    elif key == "url":
        urls = [normalize_url(url or "") for url in batch.column("url").to_pylist()]
        present = np.array(urls, dtype=bool)
        digests = [_digest(url.encode()) for url in urls]
    else:
        pairs = zip(
            batch.column("text").to_pylist(), batch.column("target_text").to_pylist(), strict=True
        )
        documents = [[text] if target is None else [text, target] for text, target in pairs]
        if key == "match":
            documents = [[" ".join(match_words(side)) for side in sides] for sides in documents]
            present = np.array([all(sides) for sides in documents], dtype=bool)
        digests = [_digest("\0".join(sides).encode()) for sides in documents]

    return np.frombuffer(b"".join(digests), dtype="S16"), present


def normalize_url(url: str) -> str:
    """Return a URL without scheme, default port and fragment, with its host in ASCII form.

    A text without a host is unchanged. A fragment that starts with `/` or `!` stays, because it is
    the path of a page that a script shows.

    "HTTPS://Example.org:443/A#top" -> "example.org/A", "http://example.org/#/a" ->
    "example.org/#/a"
    """
    url = url.strip()

    try:
        parts = urlsplit(cut_marks(url))
        port = parts.port
    except ValueError:
        return url  # an invalid URL, such as one with a non-numeric port, equals only itself

    if (host := extract_host(url)) is None:
        return url
    port_suffix = "" if port in (None, 80, 443) else f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    path_in_page = f"#{parts.fragment}" if parts.fragment.startswith(_PATH_FRAGMENT_STARTS) else ""
    return f"{host}{port_suffix}{parts.path or '/'}{query}{path_in_page}"


@dataclass
class ExactHashes(Pass[DedupCounts]):
    """Per part: send (hash, uid, priority) of every document to the range of its hash."""

    units: int
    parts: Parts
    key: Key
    name: str = "exact-hashes"

    def unit_name(self, unit: int) -> str:
        return self.parts.names[unit]

    @property
    def _hash_options(self) -> Mapping[str, Any]:
        return {"version": EXACT_VERSION + MATCH_VERSION, "key": self.key}

    def options(self, unit: int) -> Mapping[str, Any]:
        is_kept = unit >= self.parts.local_parts
        return {**self._hash_options, "ranges": self.parts.ranges, "is_kept": is_kept}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"documents": self.parts.digest(unit, known)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        made = self._read_made(unit)
        hashes = [uid_column([])]
        uids = [uid_column([])]
        priority = [np.empty(0, dtype=np.int64)]
        without_key = 0
        reused = 0

        for batch in read_batches(self.parts.find_documents(unit), _COLUMNS):
            index, is_made = locate_made(made, batch)
            if is_made.any():
                hashes.append(made["hash"][index[is_made]])
                uids.append(made["uid"][index[is_made]])
                priority.append(self.parts.priorities(unit, batch)[is_made])
                reused += int(is_made.sum())
                batch = batch.filter(pa.array(~is_made))
            digests, present = hash_contents(batch, self.key)
            without_key += len(present) - int(present.sum())
            hashes.append(digests[present])
            uids.append(uid_column(batch.column("uid").to_pylist())[present])
            priority.append(self.parts.priorities(unit, batch)[present])

        # rows sorted by hash, so that each range is a slice
        columns = {
            "hash": np.concatenate(hashes),
            "uid": np.concatenate(uids),
            "priority": np.concatenate(priority),
        }

        rows = pack_rows(_HASH_ROW, columns)[np.lexsort((columns["uid"], columns["hash"]))]
        bounds = find_hash_bounds(rows["hash"], self.parts.ranges)
        shuffle = self.parts.shuffle("exact-hashes")
        write_rows(output, shuffle, self.unit_name(unit), rows, bounds)
        if unit >= self.parts.local_parts:
            return {"other": {"hashed": len(rows), "reused_hashes": reused}}
        return {"hashed": len(rows), "without_key": without_key}

    def _read_made(self, part: int) -> NDArray[Any]:
        """Return the rows that the other run of a part has kept, sorted by uid."""
        dtype = np.dtype(list(_HASH_ROW))
        other = self.parts.find_other(part)
        if other is None or not other[0].has_made(other[1], self.name, self._hash_options):
            return np.empty(0, dtype)
        file = self.parts.shuffle("exact-hashes").file(other[0].documents.names[other[1]])
        with PieceFile(other[0].dedup, file) as pieces:
            rows = np.frombuffer(b"".join(map(pieces.piece, range(len(pieces)))), dtype)
        return rows[np.argsort(rows["uid"])]


@dataclass
class ExactSurvivors(RangePass):
    """Per hash range: choose the document to keep of each group, and send drops to their parts.

    Before near dedup, it also records which parts hold copies of a kept document, because near
    dedup may drop that document.
    """

    units: int
    parts: Parts
    before_near: bool
    name: str = "exact-survivors"

    def options(self, unit: int) -> Mapping[str, Any]:
        return {
            "version": EXACT_VERSION,
            "before_near": self.before_near,
            "local_parts": self.parts.local_parts,
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"hashes": self.parts.digest_files("exact-hashes", known)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows, part = read_numbered_rows(
            self.parts.folder, self.parts.shuffle("exact-hashes"), unit, _HASH_ROW
        )
        uids = np.ascontiguousarray(rows["uid"])
        kept = choose_kept(np.ascontiguousarray(rows["hash"]), rows["priority"], uids)
        is_local = part < self.parts.local_parts
        # a uid may be in both outputs, but not twice in this one
        ordered = np.flatnonzero(is_local)
        ordered = ordered[np.lexsort((uids[ordered], kept[ordered]))]
        repeated = (uids[ordered][1:] == uids[ordered][:-1]) & (
            kept[ordered][1:] == kept[ordered][:-1]
        )
        if repeated.any():
            uid = uids[ordered][1:][repeated][0].ljust(16, b"\0").hex()
            raise IntegrityError(
                f"dedup: document {uid} is twice below {self.parts.documents.folder}: the same "
                "record was read twice; name each input once"
            )

        # drops, sorted by part and uid
        dropped = np.flatnonzero(kept != np.arange(len(kept)))
        order = dropped[np.lexsort((uids[dropped], part[dropped]))]
        drops = pack_rows(DROP, {"uid": uids[order], "kept": uids[kept[order]]})
        bounds = find_number_bounds(part[order], self.parts.units)
        name = self.unit_name(unit)
        write_rows(output, self.parts.shuffle("exact-drops"), name, drops, bounds)

        if self.before_near:
            # the distinct (kept uid, part) pairs
            copies = pack_rows(COPY, {"uid": drops["kept"], "part": part[order]})
            copies = copies[np.lexsort((copies["part"], copies["uid"]))]
            copies = copies[find_group_starts(copies)]
            bounds = find_hash_bounds(copies["uid"], self.parts.ranges)
            write_rows(output, self.parts.shuffle("exact-kept"), name, copies, bounds)

        stays = (kept == np.arange(len(kept))) | ~is_local
        own = dropped[is_local[dropped]]
        found = build_clusters(kept, uids, np.ones(len(kept), np.float32), own, stays)
        with output.file(f"clusters/exact/{unit:06d}.arrow") as path:
            write_clusters(path, found)
        clusters = len(np.unique(kept[own]))
        return {"exact": {"compared": len(rows), "clusters": clusters, "dropped": len(own)}}
