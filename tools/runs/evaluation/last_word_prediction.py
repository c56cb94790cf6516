"""The last word of a passage, which only the whole passage tells (LAMBADA, arXiv 1606.06031)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.evaluation.local_texts import files_of, json_lines, text_lines
from clozeline.tools.runs.inference.trained_model import TrainedModel

_BATCH: Final = 64
"""Passages that are continued together; none depends on the others."""


class _Row(NamedTuple):
    """Tokens of a passage as far as the model has places, and how many of them are its last word."""

    ids: list[int]
    asked: int
    cut: bool


def read_passages(path: Path) -> list[str]:
    """Return the passages of a file or folder: the field `text` of lines of JSON, or lines of text as published.

    Raises:
        ConfigurationError: there is none of two words or more.
        IntegrityError: a file is damaged, or a line has no text.
    """
    found: list[str] = []
    for file in files_of(path):
        if not {".json", ".jsonl"} & set(file.suffixes):
            found += [line.strip() for _, line in text_lines(file)]
            continue
        for number, fields in json_lines(file):
            if not isinstance(text := fields.get("text"), str):
                raise IntegrityError(
                    f"{file}, line {number}: expected a field 'text', got {', '.join(fields) or 'none'}"
                )
            found.append(text.strip())
    passages = [text for text in found if len(text.split()) > 1]
    if not passages:
        raise ConfigurationError(f"{path}: expected passages of two words or more, got none")
    return passages


def last_word_scores(trained: TrainedModel, first: int | None, passages: Sequence[str]) -> dict[str, Any]:
    """Return the share of last words that are generated greedily, and their perplexity, which is by word.

    A word is right if all of its tokens are; white space before it belongs to it. A passage with more tokens than the
    position table loses its beginning, and is counted. Beside it is the share of the most frequent last word.

    Args:
        trained: a decoder and its tokenizer.
        first: token that precedes a text; None: nothing does.
        passages: of two words or more.

    Raises:
        ConfigurationError: the model does not generate.
    """
    limit = trained.model.position_limit
    head = [] if first is None else [first]
    rows = []
    for text, encoding in zip(passages, trained.tokenizer.encode(passages), strict=True):
        before = len(text.rsplit(maxsplit=1)[0])
        ids = [*head, *encoding.ids.tolist()]
        kept = ids if limit is None else ids[-limit:]
        rows.append(_Row(kept, int((encoding.starts >= before).sum()), len(kept) < len(ids)))
    chosen = [row for row in rows if 0 < row.asked < len(row.ids)]
    scores = log_likelihoods(trained.model, [row.ids for row in chosen])
    total = math.fsum(float(one[-row.asked :].sum()) for one, row in zip(scores, chosen, strict=True))
    right = sum(_right(trained, chosen[begin : begin + _BATCH]) for begin in range(0, len(chosen), _BATCH))
    words = Counter(text.split()[-1] for text in passages)
    return {
        "n": len(chosen),
        "skipped": len(rows) - len(chosen),
        "truncated": sum(row.cut for row in chosen),
        "accuracy": right / max(1, len(chosen)),
        "perplexity": math.exp(-total / max(1, len(chosen))),
        "baselines": {"majority": words.most_common(1)[0][1] / len(passages)},
    }


def _right(trained: TrainedModel, rows: Sequence[_Row]) -> int:
    """Return how many rows end with the tokens that the model would write."""
    decoding = Decoding(max_tokens=max(row.asked for row in rows))
    found = generate(trained.model, [row.ids[: -row.asked] for row in rows], decoding)
    return sum(one.ids[: row.asked] == row.ids[-row.asked :] for one, row in zip(found, rows, strict=True))


def last_word_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for people."""
    left_out = f"{scores['truncated']:,} truncated, {scores['skipped']:,} skipped"
    yield f"{scores['suite']}: {scores['n']:,} passages, {left_out}; step {scores['step']:,}"
    below = "  BELOW this baseline" if scores["accuracy"] < scores["baselines"]["majority"] else ""
    yield f"  accuracy of the last word {scores['accuracy']:.4f}, perplexity {scores['perplexity']:,.2f} a word"
    yield f"  the most frequent last word {scores['baselines']['majority']:.4f}{below}"
