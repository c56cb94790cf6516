"""Score minimal pairs (BLiMP, arXiv 1912.00582).

The score says how often the acceptable sentence is the more probable one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.evaluation.perplexity import WordNgrams
from clozeline.extensions.tasks.score_notes import note_few_items, note_if_worse
from clozeline.pipeline.tables import KeyedTexts, find_text_files, read_rows, read_texts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.runs.inference.text_likelihoods import Score, TextScorer, open_scorer
from clozeline.train.checkpoint.trained_model import TrainedModel

PUBLISHED: Final = {
    "5-gram": 61.2,
    "LSTM": 69.8,
    "Transformer-XL": 69.6,
    "GPT-2": 81.5,
    "people": 88.6,
}
"""mean accuracy over all 67 paradigms in percent, from the paper"""
Flags = NDArray[np.bool_]
_FEWEST_PARADIGMS: Final = 3
"""minimum number of paradigms for a correlation"""


@dataclass(frozen=True)
class Pair:
    """Two sentences, one of them unacceptable; or more."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str
    further: tuple[str, ...] = ()
    """more sentences that are wrong"""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences, the right one first."""
        return (self.good, self.bad, *self.further)


def read_pairs(
    path: Path, max_per_paradigm: int | None = None, form: NormalForm = "prose"
) -> list[Pair]:
    """Return the pairs of files in the formats below, at most so many of each paradigm.

    BLiMP's and its supplement's, `good` and `bad`, and those that BabyLM reads whole sentences
    from: EWoK (arXiv 2405.09605) and entity tracking (arXiv 2305.02363). Rows without a paradigm
    have that of their file.
    """
    pairs: list[Pair] = []
    seen: dict[str, int] = {}
    for file in find_text_files(path, with_rows=True):
        for where, fields in read_rows(file, form):
            pair = _pair_of(fields, file.name.partition(".")[0], where)
            seen[pair.paradigm] = seen.get(pair.paradigm, 0) + 1
            if max_per_paradigm is None or seen[pair.paradigm] <= max_per_paradigm:
                pairs.append(pair)
    if not pairs:
        raise ConfigurationError(f"{path}: expected pairs of sentences, got none")
    return pairs


def _pair_of(fields: Mapping[str, object], stem: str, where: str) -> Pair:
    """Return the pair of a row, whose fields tell its format.

    `stem` names the paradigm if it does not.
    """

    def text(name: str) -> str:
        if not isinstance(value := fields.get(name), str):
            raise IntegrityError(f"{where}: expected a field '{name}', got {', '.join(fields)}")
        return value

    if "Context1" in fields:  # EWoK
        context = text("Context1")
        domain = text("Domain")
        return Pair(f"{context} {text('Target1')}", f"{context} {text('Target2')}", domain, "ewok")

    if "input_prefix" in fields:  # entity tracking
        options = fields.get("options")
        operations = fields.get("numops")

        if not (
            isinstance(options, list)
            and len(options) > 1
            and all(isinstance(option, str) for option in options)
        ):
            raise IntegrityError(
                f"{where}: expected a field 'options' with two texts or more, the right one first"
            )

        good, bad, *further = (text("input_prefix") + option for option in options)
        paradigm = stem if operations is None else f"{stem}_{operations}_ops"
        return Pair(good, bad, paradigm, "entity_tracking", tuple(further))

    prefix = "" if "good" in fields else "sentence_"  # of BLiMP
    paradigm = text("UID") if "UID" in fields else stem
    phenomenon = text("linguistics_term") if "linguistics_term" in fields else "pairs"
    return Pair(text(f"{prefix}good"), text(f"{prefix}bad"), paradigm, phenomenon)


def compare_first(
    values: Sequence[float] | NDArray[np.float64], pairs: Sequence[Pair]
) -> tuple[Flags, Flags]:
    """Return in which pairs the first sentence alone has the highest value.

    Also return in which pairs it shares the highest value with another sentence.
    """
    sizes = [len(pair.sentences) for pair in pairs]
    starts = np.cumsum([0, *sizes[:-1]])
    others = np.array(values, np.float64)
    first_values = others[starts]
    others[starts] = -np.inf
    best_others = np.maximum.reduceat(others, starts)
    return first_values > best_others, first_values == best_others


def score(
    trained: TrainedModel,
    path: Path,
    pairs: int | None,
    baseline: Path | KeyedTexts | None,
    kind: Score | None,
    form: NormalForm = "prose",
) -> dict[str, Any]:
    """Return the scores of at most `pairs` pairs of each paradigm.

    The scores of baselines are counted from the words of the texts `baseline`.
    """
    scorer, chosen = open_scorer(trained, kind)
    words = None if baseline is None else WordNgrams(read_texts(baseline, form))
    return {"score": chosen, **pair_scores(read_pairs(path, pairs, form), scorer, words)}


def pair_scores(
    pairs: Sequence[Pair], scorer: TextScorer, baseline: WordNgrams | None
) -> dict[str, Any]:
    """Return the accuracy of the model and of baselines, by paradigm and phenomenon.

    A tie counts as a wrong answer; the number of ties is also returned.

    The accuracies of a phenomenon and of all pairs are means over paradigms. Because longer
    sentences have lower sums, `same_length` is the accuracy of the pairs with equally many tokens.
    """
    # score all sentences in one pass
    texts = [text for pair in pairs for text in pair.sentences]
    scores = [*scorer.score(texts)]
    preferred, ties = compare_first([score.total for score in scores], pairs)
    shorter, _ = compare_first([-score.tokens for score in scores], pairs)
    tokens = iter(scores)
    same_length = np.array(
        [len({next(tokens).tokens for _ in pair.sentences}) == 1 for pair in pairs]
    )
    by_baseline = {"shorter": shorter}

    if baseline is not None:
        for order, name in enumerate(("unigram", "bigram"), 1):
            by_baseline[name], _ = compare_first(
                [baseline.log_probability(text, order) for text in texts], pairs
            )

    names = sorted({pair.paradigm for pair in pairs})
    groups: dict[str, list[int]] = {name: [] for name in names}
    for index, pair in enumerate(pairs):
        groups[pair.paradigm].append(index)
    # accuracy by paradigm, next to each baseline
    paradigms: dict[str, Any] = {
        name: {
            "phenomenon": pairs[rows[0]].phenomenon,
            "n": len(rows),
            "accuracy": float(preferred[rows].mean()),
            "ties": int(ties[rows].sum()),
            "baselines": {
                kind: float(prefers_first[rows].mean())
                for kind, prefers_first in by_baseline.items()
            },
        }
        for name, rows in groups.items()
    }

    rows_of = paradigms.values()
    same_length_accuracy = float(preferred[same_length].mean()) if same_length.any() else None
    return {
        "n": len(pairs),
        "accuracy": _mean(row["accuracy"] for row in rows_of),
        "ties": int(ties.sum()),
        "same_length": {"n": int(same_length.sum()), "accuracy": same_length_accuracy},
        "baselines": {
            kind: _mean(row["baselines"][kind] for row in rows_of) for kind in by_baseline
        },
        "baseline_words": None if baseline is None else baseline.words,
        "correlation_with_bigram": _correlate_with_bigram(paradigms)
        if baseline is not None
        else None,
        "phenomena": {
            term: _mean(row["accuracy"] for row in rows_of if row["phenomenon"] == term)
            for term in sorted({pair.phenomenon for pair in pairs})
        },
        "paradigms": paradigms,
        "published": PUBLISHED,
    }


def pair_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    yield (
        f"{scores['suite']} by {scores['score']}: {scores['n']:,} pairs of "
        f"{len(scores['paradigms'])} paradigms, {scores['ties']:,} ties; step {scores['step']:,}"
    )
    for term, accuracy in scores["phenomena"].items():
        yield f"  {term:<34}{100 * accuracy:5.1f} %  (mean of its paradigms)"
    yield f"  {'mean of the paradigms':<34}{100 * scores['accuracy']:5.1f} %"
    same = scores["same_length"]
    if same["n"]:
        yield (
            f"  {'pairs with equally many tokens':<34}{100 * same['accuracy']:5.1f} %  "
            f"({same['n']:,} pairs)"
        )

    for name, accuracy in scores["baselines"].items():
        note = note_if_worse(100 * scores["accuracy"], 100 * accuracy, "higher", ".1f")
        yield f"  {'baseline ' + name:<34}{100 * accuracy:5.1f} %{note}"

    if few := note_few_items(scores["n"], "pair"):
        yield f"  {few}"
    if scores["correlation_with_bigram"] is not None:
        correlation = scores["correlation_with_bigram"]
        yield f"  correlation with the bigram over paradigms {correlation:.2f}"

    if scores["suite"] == "blimp":
        listed = ", ".join(f"{name} {value}" for name, value in scores["published"].items())
        yield f"  published, all 67 paradigms: {listed}"


def _mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def _correlate_with_bigram(paradigms: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return Pearson's correlation of the two accuracies over paradigms.

    None for few paradigms, or if one of the accuracies is the same in all paradigms.
    """
    model_accuracies = np.array([paradigm["accuracy"] for paradigm in paradigms.values()])
    bigram_accuracies = np.array(
        [paradigm["baselines"]["bigram"] for paradigm in paradigms.values()]
    )
    if (
        len(model_accuracies) < _FEWEST_PARADIGMS
        or not model_accuracies.std()
        or not bigram_accuracies.std()
    ):
        return None
    return float(np.corrcoef(model_accuracies, bigram_accuracies)[0, 1])
