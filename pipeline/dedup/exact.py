"""Exact deduplication by hashes of the stored text, the match form, or the URL.

Hashes are sent to ranges, and equal hashes are found range by range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import xxhash

from clozeline.arrays import Bool
from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.config import Key
from clozeline.pipeline.dedup.parts import (
    COMPARED_PRIORITY,
    COPY,
    DROP,
    DedupCounts,
    Uids,
    build_clusters,
    choose_kept,
    clusters_name,
    find_group_starts,
    pack_rows,
    read_numbered_rows,
    send_by_hash,
    send_by_number,
    uid_column,
    write_clusters,
)
from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.hosts import extract_host
from clozeline.pipeline.text.normal_form import MATCH_VERSION, cut_marks, match_words

EXACT_VERSION: Final = 4
"""Raised when a hash, and so a decision, changes."""
_PATH_FRAGMENT_STARTS: Final = ("/", "!")
"""First characters of a URL fragment that is the path of a page."""
_COLUMNS: Final[dict[Key, tuple[str, ...]]] = {
    "text": ("content_hash",),
    "match": ("text", "target_text"),
    "url": ("url",),
}
"""Columns of documents that each key is made of."""
_HASH_ROW: Final = (("hash", "S16"), ("uid", "S16"), ("priority", "<i8"))


def hash_contents(batch: pa.RecordBatch, key: Key) -> tuple[Uids, Bool]:
    """Return the XXH3-128 of each document's key, 16 bytes [n], and whether it has one, bool [n].

    A document without a URL has no key; neither has a document if its text, or one side of a pair,
    has no words to match. The key of a pair covers both sides. The hash does not resist crafted
    collisions.
    """
    if key == "text":
        hashes = uid_column(batch.column("content_hash").to_pylist())
        return hashes, np.ones(len(hashes), dtype=bool)

    if key == "url":
        keys = [normalize_url(url or "") for url in batch.column("url").to_pylist()]
    else:
        sides = (batch.column(side).to_pylist() for side in ("text", "target_text"))
        keys = [_match_key(text, target) for text, target in zip(*sides, strict=True)]

    digests = [xxhash.xxh3_128_digest(each.encode()) for each in keys]
    return uid_column(digests), np.array(keys, dtype=bool)


def _match_key(text: str, target: str | None) -> str:
    """Return the words of a document; empty if a side has none."""
    sides = [" ".join(match_words(side)) for side in (text, target) if side is not None]
    return "\0".join(sides) if all(sides) else ""


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


@dataclass(frozen=True)
class ExactHashes(Unit[DedupCounts]):
    """Send (hash, uid, priority) of every document of a part to the range of its hash."""

    VERSION = EXACT_VERSION + MATCH_VERSION
    part: str
    key: Key
    hashes: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        found = [np.empty(0, np.dtype(list(_HASH_ROW)))]
        without_key = 0
        columns = ("uid", "n_chars", *_COLUMNS[self.key])

        for batch in read_batches(open_documents(inputs, self.part), columns):
            hashes, present = hash_contents(batch, self.key)
            without_key += len(present) - int(present.sum())
            uids = uid_column(batch.column("uid").to_pylist())
            priority = np.asarray(batch.column("n_chars"))
            rows = pack_rows(_HASH_ROW, {"hash": hashes, "uid": uids, "priority": priority})
            found.append(rows[present])

        rows = np.concatenate(found)
        send_by_hash(output, self.hashes, self.part, rows, rows["hash"], rows["uid"])
        return {"without_key": without_key}


@dataclass(frozen=True)
class ExactSurvivors(Unit[DedupCounts]):
    """Choose the document to keep of each group of a hash range, and send drops to their parts.

    Before near dedup, it also records which parts hold copies of a kept document, because near
    dedup may drop that document.
    """

    VERSION = EXACT_VERSION
    name: str
    compared: Sequence[int]
    """numbers of the parts whose documents are only compared"""
    hashes: Pieces
    drops: Shuffle
    """to all parts, whose numbers are those of the sources of hashes"""
    kept: Shuffle | None
    """None without near dedup"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.name
        rows, part = read_numbered_rows(inputs, self.hashes, name, _HASH_ROW)
        uids = np.ascontiguousarray(rows["uid"])
        is_compared = np.isin(part, self.compared)
        priority = np.where(is_compared, COMPARED_PRIORITY, rows["priority"])
        kept = choose_kept(np.ascontiguousarray(rows["hash"]), priority, uids)
        # a uid may be in an input that is compared, too, but not twice in this corpus
        ordered = np.flatnonzero(~is_compared)
        ordered = ordered[np.lexsort((uids[ordered], kept[ordered]))]
        repeated = (uids[ordered][1:] == uids[ordered][:-1]) & (
            kept[ordered][1:] == kept[ordered][:-1]
        )
        if repeated.any():
            uid = uids[ordered][1:][repeated][0].ljust(16, b"\0").hex()
            raise IntegrityError(
                f"dedup: document {uid} is twice below {inputs.find_folder('documents')}: the same "
                "record was read twice; name each input once"
            )

        dropped = np.flatnonzero(kept != np.arange(len(kept)))
        drops = pack_rows(DROP, {"uid": uids[dropped], "kept": uids[kept[dropped]]})
        send_by_number(output, self.drops, name, drops, part[dropped], drops["uid"])

        if self.kept is not None:
            # the distinct (kept uid, part) pairs
            copies = pack_rows(COPY, {"uid": drops["kept"], "part": part[dropped]})
            copies = copies[np.lexsort((copies["part"], copies["uid"]))]
            copies = copies[find_group_starts(copies)]
            send_by_hash(output, self.kept, name, copies, copies["uid"])

        stays = (kept == np.arange(len(kept))) | is_compared
        own = dropped[~is_compared[dropped]]
        found = build_clusters(kept, uids, np.ones(len(kept), np.float32), own, stays)
        with output.file(clusters_name("exact", name)) as path:
            write_clusters(path, found)
        clusters = len(np.unique(kept[own]))
        return {"exact": {"clusters": clusters}}
