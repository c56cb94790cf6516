"""Choose keys of a fine-tuning, such as the learning rate and the steps, on a part of its training rows."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from clozeline.files import publish_json
from clozeline.tools.experiments.multirun.finetuning_scores import read_scored, score_run, scores_path
from clozeline.tools.experiments.multirun.runner import Training, collect_all


def combinations(search: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Return every combination of the values as `key=value` words, the last key varying fastest.

    Example:
        >>> combinations({"steps": [10, 20], "freeze": ["body"]})
        [['steps=10', 'freeze=body'], ['steps=20', 'freeze=body']]
    """
    words = [
        [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for value in values]
        for key, values in search.items()
    ]
    return [list(chosen) for chosen in itertools.product(*words)]


def choose_words(
    output: Path, config: Path, words: Sequence[str], search: Mapping[str, Sequence[Any]]
) -> tuple[list[str], list[str]]:
    """Train one run for each combination, and return the words of the best one with a table of all.

    The score is the task's first metric on the split dev of `output`/sets, which is cut off the training rows. Of equal
    scores, the first combination is chosen. Scored runs are not trained again.

    Args:
        output: folder for the runs and the choice.
        config: of the training.
        words: of every run: the body, the sets, the seed.
        search: values by key.
    """
    tried = combinations(search)
    trainings, scored = [], []
    for number, chosen in enumerate(tried):
        folder = output / f"run-{number}"
        path = scores_path(folder, "dev", 0)
        overrides = [*words, *chosen, f"output={folder / 'run'}"]
        trainings.append(Training(config, {path: partial(score_run, folder / "run", "dev")}, overrides=overrides))
        scored.append(folder)
    collect_all(trainings)
    runs = [read_scored(folder)[0] for folder in scored]
    metric = runs[0].facts.metrics[0]
    scores = [run.scores["metrics"][metric] for run in runs]
    best = max(range(len(tried)), key=lambda number: (scores[number], -number))
    publish_json(output / "choice.json", {"metric": metric, "scores": scores, "tried": tried, "chosen": tried[best]})
    return tried[best], [*_table(metric, tried, scores, best)]


def _table(metric: str, tried: Sequence[Sequence[str]], scores: Sequence[float], best: int) -> Iterator[str]:
    yield f"{metric} on a part of the training rows, one run each"
    for number, (words, score) in enumerate(zip(tried, scores, strict=True)):
        yield f"  {score:.4f}  {' '.join(words)}{'  <- chosen' if number == best else ''}"
