"""Measure the accuracy of trained runs on minimal pairs, next to n-gram models of the training texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.tools.experiments.multirun.comparison import mean_text
from clozeline.tools.runs.evaluation.minimal_pairs import Pair, pair_scores, read_pairs
from clozeline.tools.runs.evaluation.ngrams import WordModel
from clozeline.tools.runs.inference.text_likelihoods import Score, open_scorer
from clozeline.train.open_run import Run

_PER_PARADIGM: Final = 100
_KEPT: Final = ("n", "accuracy", "ties", "baselines", "correlation_with_bigram")


@dataclass(frozen=True)
class PairTest:
    """Minimal pairs, and a word model of the training texts."""

    pairs: Sequence[Pair]
    words: WordModel

    @classmethod
    def read(cls, pairs: Path, documents: Path) -> PairTest:
        """Read the first hundred pairs of each paradigm, and count the words of a stage's documents."""
        texts = (document.text for document in read_all_documents(documents))
        return cls(read_pairs(pairs, _PER_PARADIGM), WordModel(texts))

    def figures(self, run: Path, trained: Run, kinds: Sequence[Score]) -> dict[str, Any]:
        """Return accuracy, ties, baselines and the correlation with the bigram, by type of score."""
        scorers = {kind: open_scorer(run, trained, kind)[0] for kind in kinds}
        scores_by_kind = {kind: pair_scores(self.pairs, scorer, self.words) for kind, scorer in scorers.items()}
        return {kind: {key: scores[key] for key in _KEPT} for kind, scores in scores_by_kind.items()}


def pair_table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield each variant's accuracy by score, with its correlation with the bigram, then the n-grams' accuracy."""
    baselines: Mapping[str, float] = {}
    for name, figures in runs.items():
        for kind in figures[0].get("pairs", {}):
            scores = [of_seed["pairs"][kind] for of_seed in figures]
            accuracy = mean_text([100 * of_seed["accuracy"] for of_seed in scores], 1)
            correlations = [of_seed["correlation_with_bigram"] for of_seed in scores]
            correlation = "" if None in correlations else f"; correlation with the bigram {fmean(correlations):.2f}"
            yield f"minimal pairs, {name} by {kind}: {accuracy} % of {scores[0]['n']:,}{correlation}"
            baselines = scores[0]["baselines"]
    if baselines:
        listed = ", ".join(f"{kind} {100 * accuracy:.1f} %" for kind, accuracy in baselines.items())
        yield f"minimal pairs, baselines: {listed}"
