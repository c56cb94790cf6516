"""Compute the perplexity of documents in strided windows; documents never see each other."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.causal import log_likelihoods_in_windows
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.evaluation.local_texts import texts_of_files
from clozeline.tools.runs.evaluation.token_ngrams import TokenNgrams
from clozeline.tools.runs.inference.text_likelihoods import first_token, prepared_scores
from clozeline.tools.runs.inference.trained_model import TrainedModel

_BATCH_TOKENS = 1 << 17
"""tokens of documents per batch"""

_Document: TypeAlias = tuple[list[int], int | None]
"""Token ids, the first one only as context, and the UTF-8 bytes of the others."""


def perplexity_scores(
    run: Path,
    trained: TrainedModel,
    source: Path,
    window: int | None,
    stride: int | None,
    baseline: Path | None = None,
    ngram: int = 5,
) -> dict[str, Any]:
    """Return the mean negative log-likelihood per token, and what follows from it.

    Texts are tokenized and start like training documents; bits per byte refer to their UTF-8. Rows of a shard set are
    split at their documents; the first token of each is only context, and their bytes are unknown. `window` is the
    maximum context of a prediction in tokens (None: the length of training rows), `stride` the tokens between windows
    (None: half a window). With a baseline, texts or a shard set, the same tokens are also scored by its n-grams.
    """
    ready = [objective for objective in trained.objectives if "causal" in prepared_scores(objective)]
    if not ready:
        raise ConfigurationError(f"{run}: perplexity needs a run that was trained to predict tokens left-to-right")
    length, step = _window_and_stride(trained, window, stride)
    first = first_token(trained, ready[0])
    ngrams = None
    if baseline is not None:
        counted = (ids for ids, _ in _read(trained, baseline, first))
        ngrams = TokenNgrams(counted, ngram, len(trained.tokenizer.vocabulary.special))
    total, tokens, size, count, all_sizes_known, by_ngrams = 0.0, 0, 0, 0, True, 0.0
    for group in _batch_documents(_read(trained, source, first)):
        if ngrams is not None:
            by_ngrams -= sum(float(ngrams.log_probabilities(ids).sum()) for ids, _ in group)
        scored = log_likelihoods_in_windows(trained.model, [ids for ids, _ in group], length, step)
        for (_, own_size), scores in zip(group, scored, strict=True):
            total, tokens, count = total - float(scores.sum()), tokens + len(scores), count + 1
            size, all_sizes_known = size + (own_size or 0), all_sizes_known and own_size is not None
    if not tokens:
        raise ConfigurationError(f"{source}: expected tokens to score, got none")
    return {
        "perplexity": math.exp(total / tokens),
        "nats": total / tokens,
        "bits_per_byte": total / (math.log(2) * size) if all_sizes_known and size else None,
        "tokens": tokens,
        "bytes": size if all_sizes_known else None,
        "documents": count,
        "first_token": "context" if _is_set(source) or first is None else "scored",
        "window": length,
        "stride": step,
        "baseline": None if ngrams is None else {
            "ngram": ngrams.order, "counted_tokens": ngrams.tokens, "nats": by_ngrams / tokens,
            "perplexity": math.exp(by_ngrams / tokens),
        },
    }  # fmt: skip


def perplexity_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    bits = "" if scores["bits_per_byte"] is None else f", {scores['bits_per_byte']:.4f} bits per byte"
    yield f"perplexity {scores['perplexity']:.3f}: {scores['nats']:.4f} nats a token{bits}; step {scores['step']:,}"
    yield (
        f"  {scores['tokens']:,} tokens of {scores['documents']:,} documents, in windows of {scores['window']} every "
        f"{scores['stride']}; the first token of a document is {scores['first_token']}"
    )
    if baseline := scores["baseline"]:
        note = "  BELOW this baseline" if baseline["nats"] < scores["nats"] else ""
        yield (
            f"  baseline {baseline['ngram']}-gram of {baseline['counted_tokens']:,} tokens: perplexity "
            f"{baseline['perplexity']:.3f}, {baseline['nats']:.4f} nats a token{note}"
        )


def _window_and_stride(trained: TrainedModel, window: int | None, stride: int | None) -> tuple[int, int]:
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


def _read(trained: TrainedModel, source: Path, first: int | None) -> Iterator[_Document]:
    return _read_set(trained, source) if _is_set(source) else _read_texts(trained, source, first)


def _read_texts(trained: TrainedModel, source: Path, first: int | None) -> Iterator[_Document]:
    for text in texts_of_files(source):
        ids = trained.tokenizer.encode([text])[0].ids.tolist()
        size = len(text.encode())
        if first is None:  # the first token is not scored, so its bytes do not count
            size -= len(trained.tokenizer.decode_part(ids[:1]).encode())
        yield ids if first is None else [first, *ids], size


def _read_set(trained: TrainedModel, source: Path) -> Iterator[_Document]:
    shards = open_shards(source)
    trained.require_same_tokenizer(shards)
    objective = shards.manifest.objective
    if objective is not None and objective.name != "causal_lm":
        raise ConfigurationError(f"{source}: perplexity needs uncorrupted rows, got those of {objective.label}")
    names = {spec.name for spec in shards.columns}
    column = "input_ids" if "input_ids" in names else "ids"
    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        for number in range(len(rows)):
            row = rows.row(number)
            starts = [int(start) for start in row["document_starts"]] if "document_starts" in names else []
            edges = [0, *(start for start in starts if start), len(row[column])]
            for begin, end in pairwise(edges):
                yield row[column][begin:end].tolist(), None


def _batch_documents(documents: Iterator[_Document]) -> Iterator[list[_Document]]:
    group: list[_Document] = []
    tokens = 0
    for document in documents:
        group.append(document)
        tokens += len(document[0])
        if tokens >= _BATCH_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group
