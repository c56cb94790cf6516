"""Count the passes over training rows: `steps: auto`, and stored corruptions that are read again and again."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.registry import find, names
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.phases import Input, set_labels

LEARNED: Final = 4_000_000
"""Tokens after which a small model is well below the unigram entropy; half of it for encoder-decoders, which read each
twice, in inputs and targets."""
_FEWEST_STEPS: Final = 100
"""Room for a warm-up."""
_PASSES: Final = {"new": 16, "fixed": 4}
"""Passes over rows that are corrupted anew each time, and over rows without randomness: up to about 4, repeated tokens
are worth as much as new ones, and after about 16 nearly nothing (arXiv 2305.16264)."""
_READS: Final = 2
"""Times that a stored corruption is worth reading."""
_OBJECTIVES: Final = "clozeline.pipeline.corrupt.objectives"


def plan_steps(data: DataConfig, phases: Sequence[Phase[Input]]) -> int:
    """Return the number of steps that `steps: auto` stands for."""
    if data.phases:
        raise ConfigurationError("steps: auto counts passes over data.shards; with data.phases, set a number")
    sources = phases[0].sources
    # one pass: each sample once, whatever the number of its stored corruptions
    totals = [(source.manifest.totals, source.manifest.variants) for source in sources]
    rows = sum(total.samples / variants for total, variants in totals)
    tokens = sum(total.tokens / variants for total, variants in totals)
    objective = sources[0].manifest.objective
    enough = LEARNED // (2 if objective is not None and objective.architecture == "encoder_decoder" else 1)
    passes = min(max(1.0, enough / tokens), *map(_most_passes, sources))
    rows_per_step = max(data.global_batch, (data.batch_tokens or 0) * rows / tokens)
    return max(_FEWEST_STEPS, math.ceil(passes * rows / rows_per_step))


def _most_passes(source: Input) -> int:
    if not _is_random(source):
        return _PASSES["fixed"]
    return _PASSES["new"] if source.corruption is not None else _READS * source.manifest.variants


def _is_random(source: Input) -> bool:
    """Return whether another variant of a row would be corrupted differently; rows of tasks have no objective."""
    objective = source.manifest.objective
    if objective is None or objective.name not in names(_OBJECTIVES):
        return False
    return bool(find(_OBJECTIVES, objective.name).redrawn > 0)


def describe_rereading(phases: Sequence[Phase[Input]], read: Sequence[Mapping[str, float]]) -> list[str]:
    """Return a line for each stored set whose corruptions are read too often.

    `read`: per phase, the rows that the run reads of each set, by its label.
    """
    rows: Counter[str] = Counter()
    for phase in read:
        rows.update(phase)
    sources = {
        label: source
        for phase in phases
        for label, source in zip(set_labels([each.shards for each in phase.sources]), phase.sources, strict=True)
    }
    lines = []
    for label, source in sources.items():
        reads, variants = round(rows[label] / len(source.shards), 1), source.manifest.variants
        if reads > _READS and source.corruption is None and _is_random(source):
            samples = [parent.name for parent in source.manifest.parents if parent.role == "samples"]
            lines.append(
                f"note: {label}: each stored variant (of {variants}) is read {reads:,} times, and the model learns "
                f"these corruptions by heart. Store {math.ceil(reads * variants):,} (`variants` in the recipe), or "
                f"corrupt anew in each pass: the recipe's entry as data.corrupt, and group/{(samples or ['...'])[0]} "
                "as data.shards"
            )
    return lines
