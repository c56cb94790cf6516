"""Label texts with a fine-tuned run, for self-training: `clozeline pseudo-label RUN input=FILE output=FILE`.

The input has a text a line, or the two texts of a pair with a tab between them. Each gets the class with the highest
probability, and those with a probability of at least `threshold` are written in the layout of the run's task. The
file is one as any other: `clozeline finetune ... pseudo=FILE` learns from it beside the labelled one. FILE.json counts
what was written and why the rest was not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import file_hash, publish, publish_json
from clozeline.tools.command import IntermixedArguments, counted, run_tool, some_path
from clozeline.tools.runs.data.run_sets import SET_PATHS_HELP, SetPaths, split_set_paths
from clozeline.tools.runs.evaluation.labeled_texts import Judged, judge, read_texts, task_reader
from clozeline.tools.runs.evaluation.task_run import open_task_run
from clozeline.tools.settings import add_settings, settings_of


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PseudoLabelOptions:
    """Texts, and which of their labels are kept."""

    input: Annotated[Path, HOME_EXPANDED]
    """file with a text a line, or with a tab between the two of a pair"""
    output: Annotated[Path, HOME_EXPANDED]
    """file for the labelled rows, such as pseudo.tsv; beside it FILE.json has the counts"""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.9
    """lowest probability of a label that is kept"""
    per_class: Annotated[int, Field(ge=1)] | None = None
    """rows of a class at most, those with the highest probabilities; default: all"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""


def pseudo_label(run: Path, options: PseudoLabelOptions, sets: SetPaths | None = None) -> dict[str, Any]:
    """Write the labelled rows, and return the counts that are written beside them.

    Args:
        run: fine-tuned on a task of classes.
        options: what is labelled and kept.
        sets: present paths of the run's sets.

    Raises:
        ConfigurationError: the task has no classes, its reader writes no files, or no row is left.
    """
    if not options.input.is_file():
        raise ConfigurationError(f"input: {options.input}: no such file; give one with texts")
    opened = open_task_run(run, "train", step=options.step, given=sets)
    if opened.facts.head != "classification":
        raise ConfigurationError(f"{run}: expected a run of the head classification, got {opened.facts.head}")
    reader = task_reader(opened.train.manifest)
    items, refused = read_texts(options.input, opened.facts)
    judged, lost = judge(opened, items)
    kept, dropped = chosen(judged, options.threshold, options.per_class)
    if not kept:
        raise ConfigurationError(
            f"{options.input}: no row has a label with a probability of {options.threshold:g}: lower the threshold"
        )
    lines = list(reader.format_lines([replace(one.item, label=one.label) for one in kept]))
    with publish(options.output) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    names = opened.facts.labels
    facts = {
        "run": str(run.resolve()),
        "step": opened.trained.step,
        "checkpoint": opened.checkpoint,
        "tokenizer": opened.trained.tokenizer.vocabulary.fingerprint,
        "task": opened.facts.name,
        "input": {options.input.name: file_hash(options.input)},
        "output": {options.output.name: file_hash(options.output)},
        "threshold": options.threshold,
        "per_class": options.per_class,
        "rows_in": len(items) + sum(refused.values()),
        "skipped": {**refused, **({"no_tokens": lost} if lost else {}), **dropped},
        "labelled": {names[label]: number for label, number in sorted(Counter(one.label for one in kept).items())},
    }
    publish_json(options.output.with_name(f"{options.output.name}.json"), facts)
    return facts


def chosen(judged: Sequence[Judged], threshold: float, per_class: int | None) -> tuple[list[Judged], dict[str, int]]:
    """Return the rows that are kept, in their order, and how many are not, by reason.

    Args:
        judged: rows with a label and its probability.
        threshold: lowest probability.
        per_class: rows of a class at most; None: any number.

    Example:
        >>> from clozeline.pipeline.tasks.readers import LabelledText
        >>> items = [LabelledText((text,), None, None, place) for place, text in enumerate("abcd")]
        >>> given = [Judged(item, 0, p) for item, p in zip(items, (0.91, 0.5, 0.99, 0.95), strict=True)]
        >>> kept, dropped = chosen(given, 0.9, per_class=2)
        >>> [one.item.index for one in kept], dropped
        ([2, 3], {'below_threshold': 1, 'beyond_per_class': 1})
    """
    sure = [one for one in judged if one.probability >= threshold]
    by_class: dict[int, list[Judged]] = defaultdict(list)
    for one in sorted(sure, key=lambda one: (-one.probability, one.item.index)):
        by_class[one.label].append(one)
    kept = [one for rows in by_class.values() for one in rows[:per_class]]
    counts = {"below_threshold": len(judged) - len(sure), "beyond_per_class": len(sure) - len(kept)}
    return sorted(kept, key=lambda one: one.item.index), {name: count for name, count in counts.items() if count}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, PseudoLabelOptions, help_text=f"settings, listed below; {SET_PATHS_HELP}")

    def action(options: argparse.Namespace) -> int:
        sets, words = split_set_paths(options.overrides)
        given = settings_of(PseudoLabelOptions, words)
        facts = pseudo_label(options.run, given, sets)
        labelled = ", ".join(f"{name} {number:,}" for name, number in facts["labelled"].items())
        skipped = ", ".join(f"{name} {number:,}" for name, number in facts["skipped"].items()) or "none"
        sys.stdout.write(
            f"{given.output}: {counted(sum(facts['labelled'].values()), 'row')} of {facts['rows_in']:,} labelled "
            f"({labelled}); not written: {skipped}\n"
        )
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
