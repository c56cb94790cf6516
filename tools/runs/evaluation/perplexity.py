"""Perplexity of documents, read in strided windows; no document is context of another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.causal import log_likelihoods_in_windows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.runs.evaluation.local_texts import texts_of_files
from clozeline.tools.runs.inference.text_likelihoods import opening, prepared
from clozeline.tools.runs.inference.trained_model import TrainedModel

_TOGETHER = 1 << 17
"""tokens of documents that are read together"""


@dataclass(frozen=True)
class _Document:
    """Token ids, the first of which is context alone, and the bytes of UTF-8 that the others stand for."""

    ids: list[int]
    size: int | None


def perplexity_scores(
    run: Path, trained: TrainedModel, source: Path, window: int | None, stride: int | None
) -> dict[str, Any]:
    """Return the mean negative log-likelihood of a token, and what follows from it.

    Args:
        run: the run directory.
        trained: its model.
        source: a shard set, or a file or folder of texts. Texts are tokenized, and begin as documents did in training;
            bits per byte are those of their UTF-8. Rows of a set are cut at their documents, the first token of each is
            context alone, and their bytes are not known.
        window: tokens that a prediction reads at most; None: those of the training rows.
        stride: tokens between windows; None: half a window.

    Raises:
        ConfigurationError: the run was not trained to predict tokens from the left, window and stride do not go
            together, or there is no token.
    """
    ready = [objective for objective in trained.objectives if "causal" in prepared(objective)]
    if not ready:
        raise ConfigurationError(f"{run}: perplexity needs a run that was trained to predict tokens from the left")
    length, step = _sizes(trained, window, stride)
    first = opening(trained, ready[0])
    documents = _rows(trained, source) if _is_set(source) else _texts(trained, source, first)
    total, tokens, size, count, whole = 0.0, 0, 0, 0, True
    for group in _groups(documents):
        for document, scores in zip(
            group, log_likelihoods_in_windows(trained.model, [one.ids for one in group], length, step), strict=True
        ):
            total, tokens, count = total - float(scores.sum()), tokens + len(scores), count + 1
            size, whole = size + (document.size or 0), whole and document.size is not None
    if not tokens:
        raise ConfigurationError(f"{source}: expected tokens to score, got none")
    return {
        "perplexity": math.exp(total / tokens),
        "nats": total / tokens,
        "bits_per_byte": total / (math.log(2) * size) if whole and size else None,
        "tokens": tokens,
        "bytes": size if whole else None,
        "documents": count,
        "first_token": "context" if _is_set(source) or first is None else "scored",
        "window": length,
        "stride": step,
    }


def perplexity_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for people."""
    bits = "" if scores["bits_per_byte"] is None else f", {scores['bits_per_byte']:.4f} bits per byte"
    yield f"perplexity {scores['perplexity']:.3f}: {scores['nats']:.4f} nats a token{bits}; step {scores['step']:,}"
    yield (
        f"  {scores['tokens']:,} tokens of {scores['documents']:,} documents, in windows of {scores['window']} every "
        f"{scores['stride']}; the first token of a document is {scores['first_token']}"
    )


def _sizes(trained: TrainedModel, window: int | None, stride: int | None) -> tuple[int, int]:
    limit = trained.model.config.position.limit
    longest = trained.sets[0].max_length
    length = window or min(longest, limit or longest)
    step = stride or max(1, length // 2)
    if limit is not None and length > limit:
        raise ConfigurationError(f"window: the position table has room for {limit}, got {length}")
    if step > length:
        raise ConfigurationError(f"stride: expected at most the window {length}, got {step}")
    return length, step


def _is_set(source: Path) -> bool:
    return source.name.endswith("manifest.json") or (source / "manifest.json").is_file()


def _texts(trained: TrainedModel, source: Path, first: int | None) -> Iterator[_Document]:
    for text in texts_of_files(source):
        ids = trained.tokenizer.encode([text])[0].ids.tolist()
        size = len(text.encode())
        if first is None:  # the first token is not scored, so that its bytes do not count
            size -= len(trained.tokenizer.decode_part(ids[:1]).encode())
        yield _Document(ids if first is None else [first, *ids], size)


def _rows(trained: TrainedModel, source: Path) -> Iterator[_Document]:
    shards = open_shards(source)
    trained.refuse_other_tokenizer(shards)
    objective = shards.manifest.objective
    if objective is not None and objective.name != "causal_lm":
        raise ConfigurationError(f"{source}: perplexity needs rows as they are, got those of {objective.label}")
    yield from (_Document(ids, None) for ids in _parts(shards))


def _parts(shards: ShardSet) -> Iterator[list[int]]:
    names = {spec.name for spec in shards.columns}
    column = "input_ids" if "input_ids" in names else "ids"
    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        for number in range(len(rows)):
            row = rows.row(number)
            starts = [int(start) for start in row["document_starts"]] if "document_starts" in names else []
            edges = [0, *(start for start in starts if start), len(row[column])]
            for begin, end in pairwise(edges):
                yield row[column][begin:end].tolist()


def _groups(documents: Iterator[_Document]) -> Iterator[list[_Document]]:
    group: list[_Document] = []
    held = 0
    for document in documents:
        group.append(document)
        held += len(document.ids)
        if held >= _TOGETHER:
            yield group
            group, held = [], 0
    if group:
        yield group
