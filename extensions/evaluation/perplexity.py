"""Compute the perplexity, or the pseudo-perplexity, of documents in windows.

No window contains tokens of two documents.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.score_notes import note_if_worse
from clozeline.model.scoring.causal import log_likelihoods_in_windows
from clozeline.model.scoring.masked import pseudo_log_likelihoods_in_windows
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tables import KeyedTexts, read_texts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.runs.inference.text_likelihoods import (
    WORD,
    Score,
    choose_score,
    ready_scores,
    word_indices,
)
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import refuse_other_ids

_USUAL_DISCOUNT: Final = 0.5
"""discount for n-grams of a length of which none has count 1, or none has count 2"""


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length, by index.

    An n-gram's key is the index of its first n - 1 tokens, and its last token.

    Arrays end with an entry for unknown keys, index -1.
    """

    keys: Int64
    """[n-grams + 1] ascending"""
    counts: Int64
    """[n-grams + 1] occurrences, or below the highest order numbers of different tokens before the
    n-gram"""
    totals: Int64
    """[(n-1)-grams + 1] sum of the counts of the n-grams that start with it"""
    kinds: Int64
    """[(n-1)-grams + 1] number of different n-grams that start with it"""
    discount: float

    def find(self, keys: Int64) -> Int64:
        """Return the index of each key, -1 for an unknown one."""
        at = np.searchsorted(self.keys, keys)
        return np.where(self.keys[at] == keys, at, -1)

    def interpolate(
        self, contexts: Int64, indices: Int64, shorter: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the probability of the last token of n-grams; `shorter` has it given n - 2."""
        kept = np.maximum(self.counts[indices] - self.discount, 0.0)
        spread = self.discount * self.kinds[contexts] * shorter
        totals = self.totals[contexts]
        return np.where(totals > 0, (kept + spread) / np.maximum(totals, 1), shorter)


class TokenNgrams:
    """Counts of the n-grams of documents, none of which crosses the start of a document."""

    def __init__(
        self, documents: Iterable[Sequence[int] | Int64], order: int, vocab_size: int
    ) -> None:
        """Count documents: token ids, of which the first is only context.

        Raises:
            ConfigurationError: there is nothing to count.
        """
        arrays = [np.asarray(document, np.int64) for document in documents]
        self.tokens = sum(max(0, len(array) - 1) for array in arrays)
        """number of counted tokens"""
        if not self.tokens:
            raise ConfigurationError("baseline: expected texts with tokens to count, got none")
        self.order = order
        self._size = vocab_size
        tokens = np.concatenate(arrays)
        depths = np.concatenate([np.arange(len(array)) for array in arrays])
        self._orders = self._count(tokens, depths)

    def _count(self, tokens: Int64, depths: Int64) -> list[_Order]:
        orders: list[_Order] = []
        # ends [n-grams at positions], their positions and indices; the 0-gram has index 0 and ends
        # everywhere
        before = np.zeros(len(tokens), np.int64)
        contexts = 1
        grams: list[tuple[Int64, Int64, Int64]] = []

        for n in range(1, self.order + 1):
            ends = np.flatnonzero(depths >= n - 1)
            keys, indices = np.unique(before[ends] * self._size + tokens[ends], return_inverse=True)
            grams.append((keys, ends, indices))
            # the context of the next order: the n-gram that ends one position before
            before = np.full(len(tokens), -1)
            before[ends[ends + 1 < len(tokens)] + 1] = indices[ends + 1 < len(tokens)]

        for n, (keys, ends, indices) in enumerate(grams, 1):
            if n == self.order:
                counted = indices[depths[ends] >= 1]
            else:
                # one for each different (n+1)-gram that ends with it, and for each start of a
                # document
                longer_keys, longer_ends, longer = grams[n]
                first = np.full(len(longer_keys), len(tokens))
                np.minimum.at(first, longer, longer_ends)
                of_position = np.full(len(tokens), -1)
                of_position[ends] = indices
                starts = ends[(depths[ends] == n - 1) & (n > 1)]
                counted = of_position[np.concatenate([first, starts])]

            counts = np.bincount(counted, minlength=len(keys))
            prefixes = keys // self._size
            positive = counts > 0
            totals = np.bincount(prefixes, counts, minlength=contexts + 1).astype(np.int64)
            kinds = np.bincount(prefixes[positive], minlength=contexts + 1)
            once = int((counts == 1).sum())
            twice = int((counts == 2).sum())
            discount = once / (once + 2 * twice) if once and twice else _USUAL_DISCOUNT
            keys = np.append(keys, np.iinfo(np.int64).max)
            counts = np.append(counts, 0)
            orders.append(_Order(keys, counts, totals, kinds, discount))
            contexts = len(keys) - 1

        return orders

    def log_probabilities(self, document: Sequence[int]) -> NDArray[np.float64]:
        """Return the natural log-probability of each token but the first, [tokens - 1].

        Each is given up to n - 1 tokens before it.

        p(w | h) = (max(c(hw) - D, 0) + D k(h) p(w | h')) / c(h), where k(h) is the number of
        different tokens after h, h' lacks the first token of h, and the shortest history leads to 1
        / vocab_size.
        """
        tokens = np.asarray(document, np.int64)
        probabilities = np.full(len(tokens), 1.0 / self._size)
        contexts = np.zeros(len(tokens), np.int64)

        for order in self._orders:
            indices = order.find(contexts * self._size + tokens)
            probabilities = order.interpolate(contexts, indices, probabilities)
            contexts = np.concatenate([[-1], indices[:-1]])

        return np.asarray(np.log(probabilities[1:]))

    def draw(self, first: int, count: int, seed: int = 1) -> list[int]:
        """Return `count` tokens after `first`, each drawn given up to n - 1 tokens before it."""
        random = np.random.default_rng(seed)
        vocabulary = np.arange(self._size)
        ids = [first]
        # index of the n-gram that ends the text, for n from 0
        ends = np.full(self.order + 1, -1)
        ends[0] = 0
        for _ in range(count):
            longer = zip(self._orders, ends[:-1], strict=True)
            ends[1:] = [order.find(end * self._size + ids[-1]) for order, end in longer]
            probabilities = np.full(self._size, 1.0 / self._size)
            for order, end in zip(self._orders, ends[:-1], strict=True):
                indices = order.find(end * self._size + vocabulary)
                probabilities = order.interpolate(end, indices, probabilities)
            ids.append(int(random.choice(self._size, p=probabilities)))
        return ids[1:]


class WordNgrams:
    """Unigrams and bigrams of the words of texts; words that the texts lack share one id."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._ids = {"": 0}  # the start of a text, which is only context
        documents = [
            np.array(
                [0, *(self._ids.setdefault(word, len(self._ids)) for word in WORD.findall(text))]
            )
            for text in texts
        ]
        self._models = [TokenNgrams(documents, order, len(self._ids) + 1) for order in (1, 2)]
        self.words = self._models[0].tokens
        """number of counted words"""

    def log_probability(self, text: str, order: int) -> float:
        """Return the natural log-probability of a text by n-grams.

        Unigrams have order 1, bigrams order 2.
        """
        ids = [0, *(self._ids.get(word, len(self._ids)) for word in WORD.findall(text))]
        return float(self._models[order - 1].log_probabilities(ids).sum())


_BATCH_TOKENS = 1 << 17
"""tokens of documents per batch"""


class _Document(NamedTuple):
    ids: list[int]
    """token ids"""
    size: int | None
    """UTF-8 bytes of the scored tokens; None: unknown"""
    words: Sequence[int] = ()
    """word index of each token, for score=pll_word"""
    context: int = 1
    """first tokens that causal scores do not count"""


def perplexity_scores(
    trained: TrainedModel,
    source: Path | KeyedTexts,
    window: int | None,
    stride: int | None,
    baseline: Path | KeyedTexts | None = None,
    ngram: int = 5,
    score: Score | None = None,
    form: NormalForm = "prose",
    sample: int | None = None,
) -> dict[str, Any]:
    """Return the mean negative log-likelihood per token, and what follows from it.

    Texts are tokenized and start like training documents; bits per byte refer to their UTF-8. Rows
    of a shard set are split at their documents; their bytes are unknown. `window` is the maximum
    context of a prediction in tokens (None: the length of training rows, or the positions of a
    model that came from elsewhere).

    Causal scores read windows that are `stride` tokens apart (None: half a window); the first token
    of each document of a set is only context. With a baseline, texts or a shard set, the same
    tokens are also scored by its n-grams. Masked scores give the pseudo-perplexity (arXiv
    1910.14659): every token is masked in a separate row, in the middle of its window, between
    [CLS] and [SEP], which count as two tokens of the window and are not scored.
    """
    ready = ready_scores(trained.objectives)
    kind = choose_score(ready, trained, score)
    if kind == "fused":
        raise ConfigurationError(
            "score=fused: the mean of two scores has no perplexity; choose one of the two"
        )

    is_causal = kind == "causal"
    if not is_causal and (stride is not None or baseline is not None):
        name = "stride" if stride is not None else "baseline"
        raise ConfigurationError(
            f"{name}: belongs to score=causal; score={kind} masks one token at a time, remove it"
        )

    if kind == "pll_word" and _is_set(source):
        raise ConfigurationError(
            f"{source}: score=pll_word needs texts, to find words in; score=pll reads shard sets"
        )

    length, step = _window_and_stride(trained, window, stride, 1 if is_causal else 3)
    head = ready[kind].before_text if is_causal else ()

    def read(texts: Path | KeyedTexts) -> Iterator[_Document]:
        return (
            _read_set(trained, texts)
            if _is_set(texts)
            else _read_texts(trained, texts, head, kind, form)
        )

    documents = read(source)
    ngrams = None
    drawn = {}

    if baseline is not None:
        counted = [ids for ids, *_ in read(baseline)]
        ngrams = TokenNgrams(counted, ngram, len(trained.tokenizer.vocabulary.special))

        if sample is not None:
            drawn["sample"] = trained.tokenizer.decode_part(ngrams.draw(counted[0][0], sample))
    elif sample is not None:
        raise ConfigurationError("sample: expected baseline, the texts of the n-grams")

    total = 0.0
    tokens = 0
    size = 0
    count = 0
    all_sizes_known = True
    by_ngrams = 0.0

    for group in _batch_documents(documents):
        if ngrams is not None:
            by_ngrams -= sum(
                float(ngrams.log_probabilities(document.ids).sum()) for document in group
            )
        for document, scores in zip(
            group, _score_documents(trained, group, kind, length, step), strict=True
        ):
            total = total - float(scores.sum())
            tokens = tokens + len(scores)
            count = count + 1
            size = size + (document.size or 0)
            all_sizes_known = all_sizes_known and document.size is not None

    if not tokens:
        raise ConfigurationError(f"{source}: expected tokens to score, got none")
    return {
        "perplexity" if is_causal else "pseudo_perplexity": math.exp(total / tokens),
        "score": kind,
        "nats": total / tokens,
        "bits_per_byte": total / (math.log(2) * size) if all_sizes_known and size else None,
        "tokens": tokens,
        "bytes": size if all_sizes_known else None,
        "documents": count,
        "unit": "pieces of documents, as its rows have them" if _is_set(source) else "texts",
        "first_token": "context" if is_causal and (_is_set(source) or not head) else "scored",
        "window": length,
        "stride": step if is_causal else None,
        "baseline": None
        if ngrams is None
        else {
            "ngram": ngrams.order,
            "counted_tokens": ngrams.tokens,
            "nats": by_ngrams / tokens,
            "perplexity": math.exp(by_ngrams / tokens),
            **drawn,
        },
    }


def _score_documents(
    trained: TrainedModel, documents: Sequence[_Document], kind: Score, length: int, stride: int
) -> list[Tensor]:
    """Return the natural log-probabilities of the scored tokens of each document, fp64."""
    ids = [document.ids for document in documents]
    if kind == "causal":
        scores = log_likelihoods_in_windows(trained.model, ids, length, stride)
        return [
            each[document.context - 1 :] for each, document in zip(scores, documents, strict=True)
        ]
    vocabulary = trained.tokenizer.vocabulary
    # separators of packed rows
    scored = [[token for token in own if not vocabulary.special[token]] for own in ids]
    words = [document.words for document in documents] if kind == "pll_word" else None
    special = trained.masked_row_ids(f"score={kind}")
    return pseudo_log_likelihoods_in_windows(
        trained.model, scored, length - 2, special, words=words, previous=kind == "mntp"
    )


def perplexity_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    bits = (
        "" if scores["bits_per_byte"] is None else f", {scores['bits_per_byte']:.4f} bits per byte"
    )

    if scores["score"] == "causal":
        name = f"perplexity {scores['perplexity']:.3f}"
    else:
        name = f"pseudo-perplexity {scores['pseudo_perplexity']:.3f} ({scores['score']})"

    yield f"{name}: {scores['nats']:.4f} nats per token{bits}; step {scores['step']:,}"
    counted = f"{scores['tokens']:,} tokens of {scores['documents']:,} {scores['unit']}"

    if scores["stride"] is None:
        yield (
            f"  {counted}, each masked in a window of {scores['window']}; not comparable with a "
            "causal perplexity"
        )
    else:
        yield (
            f"  {counted}, in windows of {scores['window']} every {scores['stride']}; the first "
            f"token of a document is {scores['first_token']}"
        )

    if baseline := scores["baseline"]:
        own = scores["perplexity"] if scores["score"] == "causal" else scores["pseudo_perplexity"]
        note = note_if_worse(own, baseline["perplexity"], "lower", ".0f" if own >= 100 else ".3f")
        yield (
            f"  baseline {baseline['ngram']}-gram of {baseline['counted_tokens']:,} tokens: "
            f"perplexity {baseline['perplexity']:.3f}, {baseline['nats']:.4f} nats per token{note}"
        )
        if "sample" in baseline:
            yield f"  drawn from the {baseline['ngram']}-grams: {baseline['sample']}"


def _window_and_stride(
    trained: TrainedModel, window: int | None, stride: int | None, least: int
) -> tuple[int, int]:
    trained_on = trained.recorded[0].max_length if trained.recorded else trained.max_length
    length = trained.row_length(window or min(trained_on, trained.max_length), "window")
    step = stride or max(1, length // 2)
    if length < least:
        raise ConfigurationError(
            f"window: expected at least {least}, with [CLS] and [SEP], got {length}"
        )
    if step > length:
        raise ConfigurationError(f"stride: expected at most the window {length}, got {step}")
    return length, step


def _is_set(source: Path | KeyedTexts) -> TypeGuard[Path]:
    return isinstance(source, Path) and (
        source.name.endswith("manifest.json") or (source / "manifest.json").is_file()
    )


def _read_texts(
    trained: TrainedModel,
    source: Path | KeyedTexts,
    head: Sequence[int],
    kind: Score,
    form: NormalForm,
) -> Iterator[_Document]:
    for text in read_texts(source, form):
        encoding = trained.tokenizer.encode([text])[0]
        ids = encoding.ids.tolist()
        size = len(text.encode())
        if kind != "causal":
            yield _Document(ids, size, word_indices(text, encoding) if kind == "pll_word" else ())
            continue
        if not head:  # the first token is not scored, so its bytes do not count
            size -= len(trained.tokenizer.decode_part(ids[:1]).encode())
        yield _Document([*head, *ids], size, (), max(1, len(head)))


def _read_set(trained: TrainedModel, source: Path) -> Iterator[_Document]:
    shards = open_shards(source)
    refuse_other_ids(trained.ids, shards, "perplexity")
    objective = shards.manifest.objective
    if objective is not None and not objective.frame.predicts_next:
        raise ConfigurationError(
            f"{source}: perplexity needs uncorrupted rows, got those of {objective.label}"
        )

    names = {spec.name for spec in shards.columns}
    column = "input_ids" if "input_ids" in names else "ids"

    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        for number in range(len(rows)):
            row = rows.row(number)
            starts = (
                [int(start) for start in row["document_starts"]]
                if "document_starts" in names
                else []
            )
            edges = [0, *(start for start in starts if start), len(row[column])]
            for begin, end in pairwise(edges):
                yield _Document(row[column][begin:end].tolist(), None)


def _batch_documents(documents: Iterator[_Document]) -> Iterator[list[_Document]]:
    group: list[_Document] = []
    tokens = 0
    for document in documents:
        group.append(document)
        tokens += len(document.ids)
        if tokens >= _BATCH_TOKENS:
            yield group
            group = []
            tokens = 0
    if group:
        yield group
