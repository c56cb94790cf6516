"""Metrics as functions of sums over units (sentences, questions, texts), so that units can be resampled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, Entities

Units: TypeAlias = list[list[float]]
"""Counts per unit that are summed over units."""
CORPUS_METRICS: Final[Mapping[str, Any]] = {"bleu": BLEU, "chrf": CHRF}
"""corpus-level metrics, by sacrebleu"""


def value_of(metric: str, sums: NDArray[Any]) -> float:
    """Return a metric, given the summed counts of its units.

    BLEU and chrF are computed as in sacrebleu's own bootstrap; any other metric is the first sum divided by the second,
    0 where that is 0.

    Example:
        >>> value_of("f1", np.array([3.0, 4.0]))
        0.75
    """
    if metric in CORPUS_METRICS:
        return float(CORPUS_METRICS[metric]()._compute_score_from_stats(sums.astype(int).tolist()).score) / 100
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def mean_units(values: Iterable[float], counted: Iterable[float] | None = None) -> Units:
    """Return the counts of a mean over units, each weighted by `counted` (default 1)."""
    numbers = list(values)
    weights = [1.0] * len(numbers) if counted is None else list(counted)
    return [[float(value * weight), float(weight)] for value, weight in zip(numbers, weights, strict=True)]


def entity_units(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, strict: bool) -> Units:
    """Return the counts of entity F1: per sentence twice the shared entities, and those of both sides together.

    `strict` counts only well-formed IOB2 entities; otherwise those of conlleval.
    """
    units = []
    for pair in zip(gold, predicted, strict=True):
        if strict:
            sides = ({entity.to_tuple() for entity in Entities([[*tags]], IOB2).entities[0]} for tags in pair)
        else:
            sides = (set(get_entities([*tags])) for tags in pair)
        first, second = sides
        units.append([2.0 * len(first & second), float(len(first) + len(second))])
    return units


def corpus_metric(name: str, tokenize: str = "13a") -> Any:
    """Return sacrebleu's metric bleu or chrf; `tokenize` is BLEU's tokenizer."""
    return CORPUS_METRICS[name](tokenize=tokenize) if name == "bleu" else CORPUS_METRICS[name]()


def corpus_units(metric: Any, texts: Sequence[str], references: Sequence[Sequence[str | None]]) -> Units:
    """Return sacrebleu's statistics of each text; `references` has the first ones of all texts, then the second."""
    stats = metric._extract_corpus_statistics(list(texts), references)
    return [[float(value) for value in row] for row in stats]
