"""Decide how many copies of each document training reads, from its language, its source and a hash of its uid."""

from __future__ import annotations

import io
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.format_version import refuse_newer
from clozeline.pipeline.rows import Rows
from clozeline.recorded_file import RecordedFile, find_file
from clozeline.seeding import order_key

FACTORS_FILE: Final = "factors.json"
FACTORS_FORMAT: Final = 3
"""Format of factors with those of buckets; with those of cluster sizes alone it is 2, without both 1."""
SIZES_FILE: Final = "cluster_sizes.npy"
SIZE_ROW: Final = (("uid", "S16"), ("size", "<i8"))
"""Row of a document that dedup kept for others, sorted by uid: its uid, and the documents it stands for, itself too."""
UNSELECTED_FILE: Final = "unselected.bin"
BUCKETS_FILE: Final = "buckets.bin"
"""Uid, then the index of the bucket in one byte, of each document whose bucket has a factor other than 1; by uid."""
UID_BYTES: Final = 16


@dataclass(frozen=True)
class FurtherFactors:
    """Factors of documents by cluster size (FineWeb2, arXiv 2506.20920) and score (Nemotron-CC, arXiv 2412.02595)."""

    by_size: Mapping[int, Fraction]
    """smallest size of a class → factor"""
    most: int
    """maximum mean copies of a document"""
    sizes: NDArray[Any]
    """rows of `SIZE_ROW`"""
    weights: Sequence[Fraction] = ()
    """factor of each bucket"""
    buckets: Buckets | None = None

    @staticmethod
    def read(folder: Path, content: Mapping[str, Any]) -> FurtherFactors | None:
        """Return the factors in the content of `factors.json`, with sizes and buckets; None if it has none."""
        if "duplicates" not in content and "buckets" not in content:
            return None
        by_size = {int(size): Fraction(factor) for size, factor in content.get("duplicates", {}).items()}
        sizes = _read_sizes(folder) if "duplicates" in content else np.empty(0, np.dtype(list(SIZE_ROW)))
        weights = [Fraction(weight) for weight in content.get("buckets", {}).get("weights", ())]
        buckets = Buckets(find_file(folder, "buckets-000000", BUCKETS_FILE)) if weights else None
        return FurtherFactors(by_size, int(content["max_copies"]), sizes, weights, buckets)

    @staticmethod
    def read_classes(folder: Path, classes: Iterable[int]) -> FurtherFactors:
        """Return classes of sizes by their smallest size, without factors, with the sizes of clusters."""
        return FurtherFactors(dict.fromkeys(classes, Fraction(1)), 1, _read_sizes(folder))

    def size_class(self, uid: bytes) -> int:
        """Return the largest size in the table that the cluster of a document reaches; 0 if it is below all."""
        key = np.bytes_(uid)
        index = int(np.searchsorted(self.sizes["uid"], key))
        is_kept = index < len(self.sizes) and self.sizes["uid"][index] == key
        size = int(self.sizes["size"][index]) if is_kept else 1
        return max((least for least in self.by_size if least <= size), default=0)

    def class_of(self, uid: bytes) -> str:
        """Return the class of a document: its class of sizes, and after a slash its bucket if that has a factor."""
        bucket = None if self.buckets is None else self.buckets.find(uid)
        return f"{self.size_class(uid)}{'' if bucket is None else f'/{bucket}'}"

    def of_class(self, factor: Fraction, name: str) -> Fraction:
        """Return the mean copies of the documents of a class, from those of their language and source."""
        size, _, bucket = name.partition("/")
        weight = self.weights[int(bucket)] if bucket else Fraction(1)
        return min(factor * weight * self.by_size.get(int(size), Fraction(1)), Fraction(self.most))


def _read_sizes(folder: Path) -> NDArray[Any]:
    """Return the rows of `SIZE_ROW` that `balance` wrote."""
    sizes: NDArray[Any] = np.load(io.BytesIO(find_file(folder, "sizes-000000", SIZES_FILE).buffer()))
    return sizes


@dataclass(frozen=True)
class CopyFactors:
    """Mean copies per document, by language and source; the language of a pair names both sides, such as `en-sw`."""

    factors: Mapping[str, Mapping[str, Fraction]]
    seed: int
    further: FurtherFactors | None = None

    @staticmethod
    def read(file: RecordedFile, seed: int) -> CopyFactors:
        """Return the factors that `balance` wrote."""
        content = json.loads(file.text())
        refuse_newer(file.path, content, FACTORS_FORMAT)
        factors = {
            language: {source: Fraction(factor) for source, factor in by_source.items()}
            for language, by_source in content["factors"].items()
        }
        return CopyFactors(factors, seed, FurtherFactors.read(file.path.parent, content))

    def copies(self, uid: bytes, language: str, source: str) -> int:
        """Return the copies of a document: floor(f), and one more with probability f - floor(f).

        A larger factor only adds copies, independent of other documents.

        Example: at factor 5/4, every document occurs once, and a quarter of them twice.
        """
        factor = self.factors[language][source]
        if self.further is not None:
            factor = self.further.of_class(factor, self.further.class_of(uid))
        least, rest = divmod(factor, 1)
        return least + (order_key(uid, "balance", self.seed) * rest.denominator < rest.numerator << 64)

    def of_rows(self, documents: Rows, languages: Sequence[str], sources: Sequence[str]) -> Int64:
        """Return the copies of each token document, shape [documents], from the names of its language and source."""
        uids, codes = documents.fixed["document_uid"], documents.fixed["source_group"].tolist()
        rows = zip(uids, languages_of(documents, languages), codes, strict=True)
        counts = (self.copies(uid.tobytes(), language, sources[source]) for uid, language, source in rows)
        return np.fromiter(counts, np.int64, len(documents))


class _SortedUids(Sequence[bytes]):
    """Uids in rows of `width` bytes, sorted; the file is mapped, not read."""

    width = UID_BYTES

    def __init__(self, file: RecordedFile) -> None:
        self._rows = memoryview(file.buffer())

    def __len__(self) -> int:
        return len(self._rows) // self.width

    def __getitem__(self, index: Any) -> Any:
        return bytes(self._rows[index * self.width : index * self.width + UID_BYTES])


class Buckets(_SortedUids):
    """The buckets of the documents whose bucket has a factor other than 1."""

    width = UID_BYTES + 1

    def indices(self) -> bytes:
        """Return the index of each document's bucket, in the order of uids."""
        return bytes(self._rows[UID_BYTES :: self.width])

    def find(self, uid: bytes) -> int | None:
        """Return the index of the bucket of a document; None if it has the factor 1."""
        index = bisect_left(self, uid)
        return self._rows[index * self.width + UID_BYTES] if index < len(self) and self[index] == uid else None


class Unselected(_SortedUids):
    """The uids of the documents that `balance.select` leaves out."""

    def selected(self, documents: Rows) -> NDArray[np.bool_]:
        """Return which token documents are selected, shape [documents]."""
        return np.array([not self.holds(uid.tobytes()) for uid in documents.fixed["document_uid"]], dtype=np.bool_)

    def holds(self, uid: bytes) -> bool:
        """Return whether a document is left out."""
        index = bisect_left(self, uid)
        return index < len(self) and self[index] == uid


def languages_of(documents: Rows, languages: Sequence[str]) -> Iterator[str]:
    """Yield the language of each token document; for a pair the languages of both sides, such as `en-sw`."""
    targets = documents.columns.get("target_language")
    for row, code in enumerate(documents.fixed["language"].tolist()):
        target = [] if targets is None else targets[row].tolist()
        yield "-".join(languages[side] for side in (code, *target))
