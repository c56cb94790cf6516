"""Score a run: `clozeline evaluate RUN [split=dev] [task=FOLDER] [step=N] [output=FILE] [--json]`.

`perplexity=SET_OR_TEXT` gives the perplexity of texts, `suite=blimp input=FOLDER` the accuracy on minimal pairs.
Otherwise the run is one that was fine-tuned on a task.

The metrics are those of the task, over all rows of the split at once, beside the baselines that know nothing of the
model: the most frequent answer, a linear model on bags of words, and for pairs one on their overlap. A score below a
baseline is printed as such. Several ranks share the rows, and the JSON is the same as from one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.files import file_hash, publish
from clozeline.tools.command import IntermixedArguments, run_tool, some_path
from clozeline.tools.runs.data.run_sets import SET_PATHS_HELP, SetPaths, split_set_paths
from clozeline.tools.runs.evaluation.last_word_prediction import last_word_lines, last_word_scores, read_passages
from clozeline.tools.runs.evaluation.local_texts import texts_of_files
from clozeline.tools.runs.evaluation.masked_facts import fact_lines, fact_scores, read_facts, read_words
from clozeline.tools.runs.evaluation.minimal_pairs import pair_lines, pair_scores, read_pairs
from clozeline.tools.runs.evaluation.ngrams import WordModel
from clozeline.tools.runs.evaluation.perplexity import perplexity_lines, perplexity_scores
from clozeline.tools.runs.evaluation.predictions import set_rows
from clozeline.tools.runs.evaluation.scores import lines_of, scored_of, scores_of, share_of, text_of
from clozeline.tools.runs.evaluation.task_run import open_task_run
from clozeline.tools.runs.inference.text_likelihoods import Score, open_scorer, opening, ready_scores
from clozeline.tools.runs.inference.trained_model import load_trained
from clozeline.tools.settings import add_settings, settings_of
from clozeline.train.checkpoint.run_weights import find_checkpoint
from clozeline.train.distributed.process_group import World, describe_environment, start


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EvaluateOptions:
    """The split to score, and what of the run."""

    split: str = "dev"
    """folder of the split beside the training set: dev, test, dev_matched"""
    task: Path | None = None
    """folder of the task's sets; default: that of the run's training set"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""
    output: Path | None = None
    """file for the JSON"""
    perplexity: Path | None = None
    """texts, or a shard set, whose perplexity is taken: a file, or a folder"""
    window: Annotated[int, Field(ge=1)] | None = None
    """perplexity: tokens that a prediction reads at most; default: those of the training rows"""
    stride: Annotated[int, Field(ge=1)] | None = None
    """perplexity: tokens between windows, of which the last `stride` are scored; default: half a window"""
    suite: Literal["blimp", "pairs", "lambada", "lama"] | None = None
    """minimal pairs that are scored: those of BLiMP, or any lines of JSON with good and bad; lambada: passages
    whose last word is asked for; lama: sentences in which a word is masked"""
    input: Path | None = None
    """suite: its file, or the folder of its files"""
    score: Score | None = None
    """suite: score of a sentence; default: the first of causal, pll that the training prepared"""
    pairs: Annotated[int, Field(ge=1)] | None = None
    """suite: pairs of a paradigm that are scored, the first ones; default: all"""
    candidates: Path | None = None
    """suite: file with the words that compete in lama, one a line; default: those of all facts"""
    baseline: Path | None = None
    """suite: texts whose words the unigram and bigram baselines count: a file, or a folder"""

    def __post_init__(self) -> None:
        """Check what concerns several options."""
        for mode, names in _OPTIONS.items():
            given = [name for name in names if getattr(self, name) is not None]
            if given and getattr(self, mode) is None:
                raise ValueError(f"{given[0]}: is an option of {mode}=..., which is not given")
        if self.suite is not None and self.input is None:
            raise ValueError(f"suite={self.suite}: needs input=FOLDER, where its files are")
        if self.suite is not None and self.perplexity is not None:
            raise ValueError("suite, perplexity: one at a time")


_OPTIONS = {"perplexity": ("window", "stride"), "suite": ("input", "score", "pairs", "candidates", "baseline")}
"""Options that another one needs."""


def evaluate_run(run: Path, options: EvaluateOptions, world: World | None = None, given: SetPaths | None = None) -> str:
    """Return the scores of a run as JSON text, the same on every rank.

    Args:
        run: the run directory.
        options: what is scored.
        world: the ranks that share the work; None: this process alone.
        given: present paths of the run's sets.

    Raises:
        ClozelineError: the run and the split do not go together, or one of them is damaged.
    """
    opened = open_task_run(run, options.split, options.task, options.step, given)
    rows = set_rows(opened.shards)
    rank, size = (0, 1) if world is None else (world.rank, world.size)
    share = share_of(opened, rows, rank, size)
    shares = [share] if world is None else world.gather(share)
    text = text_of(scores_of(opened, scored_of(opened, rows, shares))) if rank == 0 else ""
    return text if world is None else world.gather(text)[0]


def evaluate_texts(run: Path, options: EvaluateOptions, given: SetPaths | None = None) -> tuple[str, Iterator[str]]:
    """Return the scores of texts by a run, as JSON text and as lines.

    Args:
        run: the run directory.
        options: with `perplexity` or `suite`.
        given: present paths of the run's sets.

    Raises:
        ClozelineError: the run was not trained for the score, or a file is damaged.
    """
    directory, _ = find_checkpoint(run, options.step)
    trained = load_trained(run, options.step, given)
    scores: dict[str, Any] = {
        "step": trained.step,
        "checkpoint": file_hash(directory / "checkpoint.json"),
        "tokenizer": trained.tokenizer.vocabulary.fingerprint,
    }
    if options.perplexity is not None:
        scores |= perplexity_scores(run, trained, options.perplexity, options.window, options.stride)
        return text_of(scores), perplexity_lines(scores)
    assert options.input is not None, "checked by the options"
    if options.suite == "lambada":
        open_scorer(run, trained, "causal")
        first = opening(trained, ready_scores(trained.objectives)["causal"])
        scores |= {"suite": "lambada", **last_word_scores(trained, first, read_passages(options.input))}
        return text_of(scores), last_word_lines(scores)
    if options.suite == "lama":
        open_scorer(run, trained, "pll")
        words = None if options.candidates is None else read_words(options.candidates)
        scores |= {"suite": "lama", **fact_scores(trained, read_facts(options.input), words)}
        return text_of(scores), fact_lines(scores)
    scorer, kind = open_scorer(run, trained, options.score)
    counted = None if options.baseline is None else WordModel(texts_of_files(options.baseline))
    pairs = read_pairs(options.input, options.pairs)
    scores |= {"suite": options.suite, "score": kind, **pair_scores(pairs, scorer, counted)}
    if options.suite != "blimp":
        del scores["published"]
    return text_of(scores), pair_lines(scores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, EvaluateOptions, help_text=f"settings, listed below; {SET_PATHS_HELP}")
    parser.add_argument("--json", action="store_true", help="print the JSON alone")
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)

    def action(options: argparse.Namespace) -> int:
        given, words = split_set_paths(options.overrides)
        chosen = settings_of(EvaluateOptions, words)
        if chosen.perplexity is not None or chosen.suite is not None:
            text, lines = evaluate_texts(options.run, chosen, given)
            _publish(text, chosen.output, lines=None if options.json else lines)
            return 0
        _, size = describe_environment(os.environ)
        world = start() if size > 1 else None
        text = evaluate_run(options.run, chosen, world, given)
        if world is None or world.rank == 0:
            _publish(text, chosen.output, lines=None if options.json else lines_of(json.loads(text)))
        if world is not None:
            world.shutdown()
        return 0

    return run_tool(parser, arguments, action)


def _publish(text: str, output: Path | None, *, lines: Iterable[str] | None) -> None:
    """Write the JSON to a file, if there is one, and the lines to the console; None: the JSON there, too."""
    if output is not None:
        with publish(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    sys.stdout.write(text if lines is None else "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
