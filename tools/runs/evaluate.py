"""Score a run: `clozeline evaluate RUN [split=dev] [task=FOLDER] [step=N] [output=FILE] [--json]`.

`perplexity=SET_OR_TEXT` computes the perplexity of texts, or with `score=pll` the pseudo-perplexity of a masked model,
`suite=blimp input=FOLDER` the accuracy on minimal pairs, `probe=layers task=FOLDER` what each layer knows of tagged
words. Otherwise the run must be fine-tuned on a task.

`predictions=FILE` writes each prediction with its answer; `errors=true` shows the confusion of classes, scores by class
and the worst rows.

Metrics are those of the task, over all rows of the split at once, next to baselines without the model: the most
frequent answer, and a linear model on bags of words. Scores below a baseline are marked. Several ranks share the rows;
the JSON is the same as from one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.files import publish_text
from clozeline.tools.command import IntermixedArguments, require_model, run_tool, some_path
from clozeline.tools.runs.data.run_sets import SET_PATHS_HELP, SetPaths, split_set_paths
from clozeline.tools.runs.evaluation.answer_threshold import store_threshold
from clozeline.tools.runs.evaluation.local_texts import texts_of_files
from clozeline.tools.runs.evaluation.ngrams import WordModel
from clozeline.tools.runs.evaluation.task_run import TaskRun, open_task_run
from clozeline.tools.runs.inference.text_likelihoods import Score, first_token, open_scorer, ready_scores
from clozeline.tools.settings import add_settings, settings_of
from clozeline.train.open_run import Run, open_run

if TYPE_CHECKING:
    from clozeline.train.distributed.process_group import World


@config_class
class EvaluateOptions:
    """The split to score, and how."""

    split: str = "dev"
    """folder of the split next to the training set: dev, test, dev_matched"""
    task: Path | None = None
    """folder of the task's sets; default: that of the run's training set"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""
    output: Path | None = None
    """file for the JSON"""
    predictions: Path | None = None
    """file for the predictions of a task, as JSON lines: each with its texts, the gold answer and the error"""
    errors: bool = False
    """also show the confusion of classes, scores by class, and the worst rows of a task"""
    tune: bool = False
    """questions without answers: choose the threshold of no answer with the best F1 on this split, and store it in RUN
    for later scores and predictions of the checkpoint"""
    perplexity: Path | None = None
    """texts, or a shard set, to compute the perplexity of: a file or folder"""
    window: Annotated[int, Field(ge=1)] | None = None
    """perplexity: maximum context of a prediction in tokens, those of masked scores with [CLS] and [SEP]; default: the
    length of training rows"""
    stride: Annotated[int, Field(ge=1)] | None = None
    """perplexity, score=causal: tokens between windows, of which the last `stride` are scored; default: half of one"""
    probe: Literal["layers"] | None = None
    """layers: accuracy of a linear model on each layer of the frozen model, for the tagged words of `task`"""
    suite: Literal["blimp", "pairs", "lambada", "lama", "lm_eval"] | None = None
    """blimp: minimal pairs; pairs: any lines of JSON with good and bad; lambada: passages whose last word is predicted;
    lama: sentences with a masked word; lm_eval: tasks of EleutherAI's harness, whose files are in `input`"""
    tasks: tuple[str, ...] | None = None
    """suite: names of the tasks of lm_eval"""
    input: Path | None = None
    """suite: its file, or the folder with its files"""
    score: Score | None = None
    """suite, perplexity: how to score a text; pll, pll_word and mntp give the pseudo-perplexity of a masked model;
    default: the first of causal, pll that the training prepared"""
    pairs: Annotated[int, Field(ge=1)] | None = None
    """suite: maximum number of pairs per paradigm; default: all"""
    candidates: Path | None = None
    """suite: file with the candidate words of lama, one per line; default: the words of all facts"""
    baseline: Path | None = None
    """texts to count in for baselines: a file or folder. Suite: unigrams and bigrams of words; perplexity: n-grams of
    the model's tokens (interpolated Kneser-Ney), also of a shard set"""
    ngram: Annotated[int, Field(ge=1, le=8)] | None = None
    """perplexity: tokens of the longest n-grams of the baseline; default: 5"""

    def __post_init__(self) -> None:
        for mode, names in _OPTIONS.items():
            options_set = [name for name in names if getattr(self, name) is not None]
            if options_set and getattr(self, mode) is None:
                raise ValueError(f"{options_set[0]}: is an option of {mode}=..., which is not given")
        if self.score is not None and self.perplexity is None and self.suite is None:
            raise ValueError("score: is an option of suite=... and of perplexity=..., neither is given")
        if self.suite is not None and self.input is None:
            raise ValueError(f"suite={self.suite}: needs input=FOLDER, where its files are")
        if (self.suite == "lm_eval") != bool(self.tasks):
            raise ValueError("suite=lm_eval: needs tasks=[NAME, ...], which no other suite reads")
        if self.baseline is None and self.ngram is not None:
            raise ValueError("ngram: is an option of baseline=TEXTS, which is not given")
        if self.baseline is not None and self.perplexity is None and self.suite is None:
            raise ValueError("baseline: is an option of perplexity=... and of suite=..., neither is given")
        modes = [name for name in ("perplexity", "suite", "probe") if getattr(self, name) is not None]
        if len(modes) > 1:
            raise ValueError(f"{', '.join(modes)}: one at a time")
        if modes and (self.predictions is not None or self.errors):
            raise ValueError(f"predictions, errors: are those of a task, {modes[0]} has none")
        if self.probe is not None and self.task is None:
            raise ValueError(f"probe={self.probe}: needs task=FOLDER, sets of tagged words with the run's tokenizer")


_OPTIONS = {"perplexity": ("window", "stride", "ngram"), "suite": ("input", "tasks", "pairs", "candidates")}
"""Options that require another option."""


def evaluate_run(
    run: Path, options: EvaluateOptions, world: World | None = None, set_paths: SetPaths | None = None
) -> str:
    """Return the scores of a run as JSON text, the same on every rank."""
    from clozeline.tools.runs.evaluation.answer_scores import choose_threshold
    from clozeline.tools.runs.evaluation.predictions import merge_shares, set_rows
    from clozeline.tools.runs.evaluation.scores import predict_task_share, score_shares, scores_of, to_json

    opened = open_task_run(run, options.split, options.task, options.step, set_paths)
    rows = set_rows(opened.shards)
    rank, size = (0, 1) if world is None else (world.rank, world.size)
    if options.tune and not opened.facts.unanswerable:
        raise ConfigurationError(f"tune: {opened.facts.name} has no questions without answers, remove the key")
    share = predict_task_share(opened, rows, rank, size)
    shares = [share] if world is None else world.gather(share)
    text = ""
    if rank == 0:
        if options.tune:
            opened = _tune(run, opened, choose_threshold(opened.facts, rows, merge_shares(shares, len(rows))))
        scores = scores_of(opened, score_shares(opened, rows, shares))
        if opened.facts.unanswerable:
            scores["threshold"] = opened.threshold
        text = to_json(scores)
    return text if world is None else world.gather(text)[0]


def _tune(run: Path, opened: TaskRun, chosen: tuple[float, float]) -> TaskRun:
    threshold, f1 = chosen
    facts = {"checkpoint": opened.checkpoint, "set": opened.shards.digest, "f1": f1}
    store_threshold(run, threshold, facts)
    return replace(opened, threshold=threshold)


def evaluate_texts(run: Path, options: EvaluateOptions) -> tuple[str, Iterator[str]]:
    """Return the scores of texts by a run as JSON text and as lines, by `perplexity`, `suite` or `probe`."""
    from clozeline.tools.runs.evaluation import last_word_prediction, lm_eval_tasks, masked_facts, minimal_pairs
    from clozeline.tools.runs.evaluation.layer_probes import probe_lines, probe_scores
    from clozeline.tools.runs.evaluation.perplexity import perplexity_lines, perplexity_scores
    from clozeline.tools.runs.evaluation.scores import to_json

    trained = open_run(run, options.step)
    scores: dict[str, Any] = {
        "step": trained.step,
        "checkpoint": trained.digest,
        "tokenizer": trained.tokenizer.vocabulary.fingerprint,
    }
    if options.perplexity is not None:
        scores |= perplexity_scores(
            run, trained, options.perplexity, options.window, options.stride, options.baseline, options.ngram or 5,
            options.score,
        )  # fmt: skip
        return to_json(scores), perplexity_lines(scores)
    if options.probe is not None:
        assert options.task is not None, "checked by the options"
        scores |= probe_scores(trained, options.task, options.split)
        return to_json(scores), probe_lines(scores)
    assert options.input is not None, "checked by the options"
    scores |= _suite_scores(run, trained, options)
    if options.suite == "lm_eval":
        return to_json(scores), lm_eval_tasks.task_lines(scores)
    lines = {"lambada": last_word_prediction.last_word_lines, "lama": masked_facts.fact_lines}
    return to_json(scores), lines.get(options.suite or "", minimal_pairs.pair_lines)(scores)


def _suite_scores(run: Path, trained: Run, options: EvaluateOptions) -> dict[str, Any]:
    """Return the scores of the items of a suite."""
    from clozeline.tools.runs.evaluation import last_word_prediction, lm_eval_tasks, masked_facts, minimal_pairs

    assert options.input is not None, "checked by the options"
    if options.suite == "lm_eval":
        return lm_eval_tasks.task_scores(run, trained, options.tasks or (), options.input)
    if options.suite == "lambada":
        open_scorer(run, trained, "causal")
        first = first_token(trained, ready_scores(trained.objectives)["causal"])
        passages = last_word_prediction.read_passages(options.input)
        return {"suite": "lambada", **last_word_prediction.last_word_scores(trained, first, passages)}
    if options.suite == "lama":
        open_scorer(run, trained, "pll")
        facts = masked_facts.read_facts(options.input)
        if options.candidates is None:
            words = [fact.word for fact in facts]
        else:
            words = masked_facts.read_words(options.candidates)
        return {"suite": "lama", **masked_facts.fact_scores(trained, facts, words)}
    scorer, kind = open_scorer(run, trained, options.score)
    word_model = None if options.baseline is None else WordModel(texts_of_files(options.baseline))
    pairs = minimal_pairs.read_pairs(options.input, options.pairs)
    scores = {"suite": options.suite, "score": kind, **minimal_pairs.pair_scores(pairs, scorer, word_model)}
    if options.suite != "blimp":
        del scores["published"]
    return scores


def _show_errors(run: Path, options: EvaluateOptions, set_paths: SetPaths | None, *, quiet: bool) -> None:
    """Write the predictions of a split, and show where they are wrong."""
    from clozeline.tools.runs.evaluation.error_analysis import answered_records, error_lines, record_lines
    from clozeline.tools.runs.evaluation.predictions import set_rows

    opened = open_task_run(run, options.split, options.task, options.step, set_paths)
    records = answered_records(opened, set_rows(opened.shards))
    if options.predictions is not None:
        publish_text(options.predictions, record_lines(records))
    if options.errors and not quiet:
        sys.stdout.write("".join(f"{line}\n" for line in error_lines(opened.facts, records)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, EvaluateOptions, help_text=f"settings, listed below; {SET_PATHS_HELP}")
    parser.add_argument("--json", action="store_true", help="print the JSON alone")
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)

    def action(options: argparse.Namespace) -> None:
        set_paths, words = split_set_paths(options.overrides)
        chosen = settings_of(EvaluateOptions, words)
        require_model(options.run)
        from clozeline.tools.runs.evaluation.scores import lines_of, write_scores
        from clozeline.train.distributed.launcher import describe_environment
        from clozeline.train.distributed.process_group import start

        if (chosen.perplexity, chosen.suite, chosen.probe) != (None, None, None):
            if set_paths != SetPaths():
                raise ConfigurationError("data.shards, data.heldout: are read to score a task; remove them")
            text, lines = evaluate_texts(options.run, chosen)
            write_scores(text, chosen.output, None if options.json else lines)
            return
        _, size = describe_environment(os.environ)
        world = start() if size > 1 else None
        text = evaluate_run(options.run, chosen, world, set_paths)
        if world is None or world.rank == 0:
            write_scores(text, chosen.output, None if options.json else lines_of(json.loads(text)))
            if chosen.predictions is not None or (chosen.errors and not options.json):
                _show_errors(options.run, chosen, set_paths, quiet=options.json)
        if world is not None:
            world.shutdown()

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
