"""Minimal pairs: the share of pairs whose acceptable sentence is the more probable one (BLiMP, arXiv 1912.00582)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.tools.runs.evaluation.local_texts import files_of, json_lines
from clozeline.tools.runs.evaluation.ngrams import WordModel
from clozeline.tools.runs.inference.text_likelihoods import TextScorer

PUBLISHED: Final = {"5-gram": 61.2, "LSTM": 69.8, "Transformer-XL": 69.6, "GPT-2": 81.5, "people": 88.6}
"""mean accuracy over all 67 paradigms, in percent, by the paper"""
_FIELDS: Final = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
_FEWEST: Final = 3
"""paradigms of which a correlation is taken"""


@dataclass(frozen=True)
class Pair:
    """Two sentences that differ in what makes one unacceptable."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str


def read_pairs(path: Path, most: int | None = None) -> list[Pair]:
    """Return the pairs of a file, or of the files of a folder, in BLiMP's format, or as `good` and `bad`.

    Args:
        path: lines of JSON, plain or compressed.
        most: pairs of a paradigm that are taken, the first ones; None: all.

    Raises:
        ConfigurationError: there is no such file.
        IntegrityError: a line lacks a field.
    """
    found: list[Pair] = []
    taken: dict[str, int] = {}
    for file in files_of(path, (".jsonl",)):
        for number, fields in json_lines(file):
            if "good" in fields:
                fields = {**_plain(file), **fields, "sentence_good": fields["good"], "sentence_bad": fields.get("bad")}
            wrong = [name for name in _FIELDS if not isinstance(fields.get(name), str)]
            if wrong:
                raise IntegrityError(f"{file}, line {number}: expected a field '{wrong[0]}', got {', '.join(fields)}")
            pair = Pair(*(fields[name] for name in _FIELDS))
            taken[pair.paradigm] = taken.get(pair.paradigm, 0) + 1
            if most is None or taken[pair.paradigm] <= most:
                found.append(pair)
    if not found:
        raise ConfigurationError(f"{path}: expected pairs of sentences, got none")
    return found


def _plain(file: Path) -> dict[str, str]:
    """Return the paradigm of pairs that name none: the name of their file."""
    return {"UID": file.name.partition(".")[0], "linguistics_term": "pairs"}


def pair_scores(pairs: Sequence[Pair], scorer: TextScorer, baseline: WordModel | None) -> dict[str, Any]:
    """Return accuracy by paradigm and phenomenon, and that of baselines; a tie is wrong, and counted.

    The accuracy of a phenomenon, and the whole one, are means over paradigms. Longer sentences have smaller sums:
    `same_length` is the accuracy of pairs with equally many tokens alone.

    Args:
        pairs: of any paradigms.
        scorer: of texts.
        baseline: words of a text; None: no such baseline.
    """
    scores = [*scorer.score([text for pair in pairs for text in (pair.good, pair.bad)])]
    good, bad = scores[::2], scores[1::2]
    alike = np.array([one.tokens == other.tokens for one, other in zip(good, bad, strict=True)])
    won = np.array([one.total > other.total for one, other in zip(good, bad, strict=True)])
    ties = np.array([one.total == other.total for one, other in zip(good, bad, strict=True)])
    by_baseline = {"shorter": np.array([one.tokens < other.tokens for one, other in zip(good, bad, strict=True)])}
    if baseline is not None:
        by_baseline |= {"unigram": _won(pairs, baseline.unigram), "bigram": _won(pairs, baseline.bigram)}
    groups = _groups(pairs)
    paradigms: dict[str, Any] = {
        name: {
            "phenomenon": pairs[rows[0]].phenomenon,
            "n": len(rows),
            "accuracy": float(won[rows].mean()),
            "ties": int(ties[rows].sum()),
            "baselines": {kind: float(of[rows].mean()) for kind, of in by_baseline.items()},
        }
        for name, rows in groups.items()
    }
    return {
        "n": len(pairs),
        "accuracy": _mean(one["accuracy"] for one in paradigms.values()),
        "ties": int(ties.sum()),
        "same_length": {"n": int(alike.sum()), "accuracy": float(won[alike].mean()) if alike.any() else None},
        "baselines": {kind: _mean(one["baselines"][kind] for one in paradigms.values()) for kind in by_baseline},
        "baseline_words": None if baseline is None else baseline.words,
        "correlation_with_bigram": _correlation(paradigms) if baseline is not None else None,
        "phenomena": {
            term: _mean(one["accuracy"] for one in paradigms.values() if one["phenomenon"] == term)
            for term in sorted({pair.phenomenon for pair in pairs})
        },
        "paradigms": paradigms,
        "published": PUBLISHED,
    }


def pair_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for people."""
    yield (
        f"{scores['suite']} by {scores['score']}: {scores['n']:,} pairs of {len(scores['paradigms'])} paradigms, "
        f"{scores['ties']:,} ties; step {scores['step']:,}"
    )
    for term, accuracy in scores["phenomena"].items():
        yield f"  {term:<34}{100 * accuracy:5.1f} %"
    yield f"  {'mean of the paradigms':<34}{100 * scores['accuracy']:5.1f} %"
    same = scores["same_length"]
    if same["n"]:
        yield f"  {'pairs with equally many tokens':<34}{100 * same['accuracy']:5.1f} %  ({same['n']:,} pairs)"
    for name, accuracy in scores["baselines"].items():
        note = "  BELOW this baseline" if scores["accuracy"] < accuracy else ""
        yield f"  {'baseline ' + name:<34}{100 * accuracy:5.1f} %{note}"
    if scores["correlation_with_bigram"] is not None:
        yield f"  correlation with the bigram over paradigms {scores['correlation_with_bigram']:.2f}"
    if scores["suite"] == "blimp":
        listed = ", ".join(f"{name} {value}" for name, value in scores["published"].items())
        yield f"  published, all 67 paradigms: {listed}"


def _groups(pairs: Sequence[Pair]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        groups.setdefault(pair.paradigm, []).append(number)
    return dict(sorted(groups.items()))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def _won(pairs: Sequence[Pair], score: Callable[[str], float]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([score(pair.good) > score(pair.bad) for pair in pairs])


def _correlation(paradigms: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return Pearson's correlation over paradigms; None of few, or of a constant."""
    ours = np.array([one["accuracy"] for one in paradigms.values()])
    theirs = np.array([one["baselines"]["bigram"] for one in paradigms.values()])
    if len(ours) < _FEWEST or not ours.std() or not theirs.std():
        return None
    return float(np.corrcoef(ours, theirs)[0, 1])
