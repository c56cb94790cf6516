"""Hash the key of documents for exact deduplication: the stored text, its match form, or the URL."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from clozeline.pipeline.dedup.config import Key
from clozeline.pipeline.text.hosts import host_of
from clozeline.pipeline.text.normal_form import match_words

EXACT_VERSION: Final = 2
"""Raised when a hash, and so a decision, changes."""

EXACT_COLUMNS: Final = ("text", "target_text", "url")
_digest: Callable[[bytes | memoryview], bytes] = xxhash.xxh3_128_digest


def content_hashes(batch: pa.RecordBatch, key: Key) -> tuple[NDArray[np.bytes_], NDArray[np.bool_]]:
    """Return the XXH3-128 of each document's key, 16 bytes [n], and which documents have a key, bool [n].

    A document without a URL has no key, nor has one whose text, or a side of a pair, has no words to match. The key of
    a pair covers both sides. The hash does not resist crafted collisions.
    """
    present = np.ones(len(batch), dtype=bool)
    if key == "text" and batch.column("target_text").null_count == len(batch):
        # hash the UTF-8 bytes in the Arrow buffer, without Python strings
        texts = batch.column("text")
        _, offsets_buffer, data = texts.buffers()
        view = memoryview(data) if data is not None else memoryview(b"")
        offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
        digests = [_digest(view[start:end]) for start, end in pairwise(offsets)]
    elif key == "url":
        urls = [normalize_url(url or "") for url in batch.column("url").to_pylist()]
        present = np.array(urls, dtype=bool)
        digests = [_digest(url.encode()) for url in urls]
    else:
        pairs = zip(batch.column("text").to_pylist(), batch.column("target_text").to_pylist(), strict=True)
        documents = [[text] if target is None else [text, target] for text, target in pairs]
        if key == "match":
            documents = [[" ".join(match_words(side)) for side in sides] for sides in documents]
            present = np.array([all(sides) for sides in documents], dtype=bool)
        digests = [_digest("\0".join(sides).encode()) for sides in documents]
    return np.frombuffer(b"".join(digests), dtype="S16"), present


def normalize_url(url: str) -> str:
    """Return a URL without scheme, default port and fragment, with the host in ASCII form; as it is without a host.

    "HTTPS://Example.org:443/A#top" -> "example.org/A"
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url  # not a valid URL, such as one with a non-numeric port: equal only to itself
    if (host := host_of(url)) is None:
        return url
    shown = "" if port in (None, 80, 443) else f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{shown}{parts.path or '/'}{query}"
