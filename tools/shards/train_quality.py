"""Train the model of the filter `quality`: `clozeline train-quality good=[GLOB …] web=OUT/clean/documents output=FILE`.

A logistic regression over hashed words and word pairs learns to tell good texts, such as books or encyclopedias, from
those of a crawl (Li et al. 2024, DCLM, arXiv 2406.11794). Inputs are files or folders of documents (.arrow), lines of
JSON with `text`, or plain texts, also compressed. A tenth of the documents, chosen by hash, is held out; the command
prints how well the model ranks them. The same texts give the same bytes.
"""

import argparse
import glob
import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import xxhash
from pydantic import Field
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.text.linear_model import BITS, UNIT, LinearModel, feature_indices
from clozeline.pipeline.text.word_hashes import WordHashes
from clozeline.tools.command import Arguments, plural, run_tool
from clozeline.tools.runs.evaluation.local_texts import stored_texts
from clozeline.tools.settings import add_settings, settings_of

_WORD_BYTES: Final = 8
_PIECE_WORDS: Final = 256
_PIECES: Final = 4
_SCALE: Final = 100.0  # features are shares of a piece; larger ones weaken the penalty of `c`
_HELD_OUT: Final = 10  # one document in ten
_LARGEST: Final = 2**31 - 1


@config_class
class QualitySettings:
    """Texts to learn from, and the file to write."""

    good: list[str]
    """files, folders or globs of good texts"""
    web: list[str] | str
    """files, folders or globs of texts of the crawl, such as OUT/clean/documents"""
    output: Annotated[Path, HOME_EXPANDED]
    """model to write, .npz"""
    documents: Annotated[int, Field(ge=20)] = 10_000
    """maximum number of documents of each side, chosen by hash; ≥ 20"""
    c: Annotated[float, Field(gt=0)] = 1.0
    """inverse strength of the penalty on large weights, above 0"""


class _Side(NamedTuple):
    """Hashes of the words of documents: 8 bytes a word."""

    train: list[bytes]
    held_out: list[bytes]


def train_model(good: Sequence[bytes], web: Sequence[bytes], c: float) -> LinearModel:
    """Return the model that tells the texts of two sides apart; both count the same, whatever their numbers are."""
    pieces = [[piece for digests in side for piece in _cut_pieces(digests)] for side in (web, good)]
    indices = [feature_indices(piece) for side in pieces for piece in side]
    lengths = np.array([len(each) for each in indices])
    # rows are pieces, columns are features; a value is a share of the features of its piece, repeated ones add up
    values = np.repeat(_SCALE / lengths, lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    rows = csr_matrix((values, np.concatenate(indices), offsets), shape=(len(indices), 1 << BITS))
    labels = np.repeat([0, 1], [len(side) for side in pieces])
    fitted = LogisticRegression(C=c, class_weight="balanced", max_iter=200).fit(rows, labels)
    weights = np.clip(np.rint(fitted.coef_[0] * _SCALE * UNIT), -_LARGEST, _LARGEST).astype(np.int32)
    return LinearModel(weights, int(np.rint(fitted.intercept_[0] * UNIT)))


def _cut_pieces(digests: bytes) -> Iterator[bytes]:
    """Yield at most four pieces of 256 words, evenly spread over a text."""
    size = _PIECE_WORDS * _WORD_BYTES
    starts = range(0, len(digests), size)
    for start in starts[:: max(1, -(-len(starts) // _PIECES))]:
        yield digests[start : start + size]


def _read_side(patterns: Sequence[str], most: int, words: WordHashes) -> _Side:
    """Read the documents with the smallest hashes of their words, so that neither order nor copies matter."""
    chosen: dict[int, bytes] = {}
    heap: list[int] = []
    for text in _read_texts(patterns):
        digests = words.digests(text)
        key = xxhash.xxh3_64_intdigest(digests)
        if not digests or key in chosen or (len(heap) == most and key > -heap[0]):
            continue
        chosen[key] = digests
        if len(heap) < most:
            heapq.heappush(heap, -key)
        else:
            del chosen[-heapq.heapreplace(heap, -key)]
    side = _Side([], [])
    for key in sorted(chosen):
        (side.held_out if key % _HELD_OUT == 0 else side.train).append(chosen[key])
    return side


def _read_texts(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        paths = sorted(glob.glob(pattern, recursive=True)) or [pattern]  # noqa: PTH207 (absolute patterns)
        for path in paths:
            yield from stored_texts(Path(path))


def _run(options: argparse.Namespace) -> None:
    settings = settings_of(QualitySettings, options.overrides)
    words = WordHashes()
    web = [settings.web] if isinstance(settings.web, str) else settings.web
    sides = {"good": _read_side(settings.good, settings.documents, words),
             "web": _read_side(web, settings.documents, words)}  # fmt: skip
    for name, side in sides.items():
        if not side.train or not side.held_out:
            count = len(side.train) + len(side.held_out)
            raise ConfigurationError(
                f"{name}: expected at least 20 different texts, got {count}: a tenth of them is held out; add files"
            )
        print(f"{name}: {plural(len(side.train), 'document')} to learn from, {len(side.held_out):,} held out")
    model = train_model(sides["good"].train, sides["web"].train, settings.c)
    model.save(settings.output)
    good, crawled = ([model.logit(digests) for digests in side.held_out] for side in (sides["good"], sides["web"]))
    right = sum(logit > 0 for logit in good) / len(good), sum(logit <= 0 for logit in crawled) / len(crawled)
    area = roc_auc_score([1] * len(good) + [0] * len(crawled), [*good, *crawled])
    print(f"held out: accuracy {sum(right) / 2:.3f} (good {right[0]:.3f}, web {right[1]:.3f}), ROC AUC {area:.3f}")
    print(f"wrote {settings.output}, xxh3 {file_hash(settings.output)}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    add_settings(parser, QualitySettings)
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
