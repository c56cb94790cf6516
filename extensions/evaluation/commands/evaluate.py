"""Score a run: `clozeline evaluate mine/run [split=dev] [task=FOLDER] [step=N] [output=FILE]`.

The run is fine-tuned on a task. Metrics are those of the task, over all rows of the split at once,
next to baselines without the model: `majority`, the most frequent answer, and `words`, a logistic
regression on which single words occur in a text, fitted on the training rows (for numbers and
choices a ridge regression). Scores below a baseline are marked. Several ranks share the rows; the
JSON is the same as from one process. `predictions=FILE` writes each prediction with its answer;
`errors=true` shows the confusion of classes, scores by class and the worst predictions.

A run that is trained on texts has no task: its loss and perplexity on its held-out sets are
computed.

Any run: `perplexity=SET_OR_TEXT` computes the perplexity of texts, or with `score=pll` the
pseudo-perplexity of a masked model, `suite=blimp input=FOLDER` the accuracy on minimal pairs,
`probe=layers task=FOLDER` what each layer knows of tagged words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from clozeline.command_line import ChoosesMode, Hidden
from clozeline.configuration.added_keys import Extensible, add_keys
from clozeline.configuration.config import Names, config_class
from clozeline.configuration.unread_keys import non_default_keys
from clozeline.errors import ConfigurationError
from clozeline.files import publish_text
from clozeline.pipeline.tables import KeyedTexts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.command import OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, JsonSwitch, RunArgument
from clozeline.tools.registries import SCORING_KEYS
from clozeline.tools.runs.data.run_sets import MovedSets
from clozeline.tools.runs.inference.text_likelihoods import Score
from clozeline.train.checkpoint.stored_checkpoint import step_of, steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel, read_config

if TYPE_CHECKING:
    from clozeline.train.distributed.process_group import World

Scores: TypeAlias = tuple[dict[str, Any], Iterator[str]]
"""scores as plain data, and as lines"""


@config_class
class Scored(CheckpointChoice, JsonSwitch, RunArgument):
    """The run and the checkpoint to score, and where its scores go."""

    output: OutputPath | None = None
    """file for the JSON"""
    local_rank: Annotated[int | None, Hidden()] = None
    """set by a launcher"""


@config_class
@add_keys(SCORING_KEYS.added_keys())
class EvaluateOptions(Scored, MovedSets, Extensible):
    """The split of a task to score, and how."""

    split: str = "dev"
    """folder of the split next to the training set: dev, test, dev_matched"""
    task: Path | None = None
    """folder of the task's sets; default: that of the run's training set"""
    metrics: Names = field(default_factory=list)
    """metrics to compute, such as [macro_f1, log_loss]; empty: those that the set names"""
    predictions: OutputPath | None = None
    """file for the predictions, as JSON lines: each with its texts, the gold answer and the
    error"""
    errors: bool = False
    """also show the confusion of classes, scores by class, and the worst predictions"""
    tune: bool = False
    """questions without answers: choose the threshold of no answer with the best F1 on this split,
    and store it in RUN for later scores and predictions of the checkpoint"""


@config_class
class PerplexityOptions(Scored):
    """Texts to compute the perplexity of."""

    perplexity: Annotated[Path | KeyedTexts, ChoosesMode()]
    """texts, or a shard set: a file or folder; `{path: posts.jsonl, text_key: body}` names the
    field or column"""
    score: Score | None = None
    """type of score; pll, pll_word and mntp give the pseudo-perplexity of a masked model; default:
    the first of causal, pll that the training prepared"""
    window: Positive | None = None
    """maximum context of a prediction in tokens, those of masked scores with [CLS] and [SEP];
    default: the length of training rows, or the positions of a model that came from elsewhere"""
    stride: Positive | None = None
    """score=causal: tokens between windows, of which the last `stride` are scored; default: half of
    one"""
    baseline: Path | KeyedTexts | None = None
    """texts to count in for baselines, a file or folder: perplexity, n-grams of the model's tokens
    (interpolated Kneser-Ney), also of a shard set; suite, unigrams and bigrams of words"""
    ngram: Annotated[int, Field(ge=1, le=8)] = 5
    """tokens of the longest n-grams of the baseline"""
    sample: Positive | None = None
    """draw a text of so many tokens from the n-grams of the baseline, and print it"""
    normalize: NormalForm = "prose"
    """stored form of the texts, as `clean.normalize` of the training data; none scores them as they
    are"""

    def scores(self, trained: TrainedModel) -> Scores:
        """Return the perplexity."""
        from clozeline.extensions.evaluation.perplexity import perplexity_lines, perplexity_scores

        scores = perplexity_scores(
            trained,
            self.perplexity,
            self.window,
            self.stride,
            self.baseline,
            self.ngram,
            self.score,
            self.normalize,
            self.sample,
        )

        return scores, perplexity_lines({**scores, "step": trained.step})


@config_class
class SuiteOptions(Scored):
    """Items that any language model can be scored on."""

    suite: Annotated[Literal["blimp", "pairs"], ChoosesMode()]
    """blimp: minimal pairs; pairs: lines of JSON with good and bad, or of BLiMP's supplement, EWoK
    and entity tracking"""
    input: Path
    """file of the suite, or the folder with its files"""
    score: Score | None = None
    pairs: Positive | None = None
    """maximum number of pairs per paradigm; default: all"""
    baseline: Path | KeyedTexts | None = None
    normalize: NormalForm = "prose"

    def scores(self, trained: TrainedModel) -> Scores:
        """Return the scores of the items."""
        from clozeline.extensions.evaluation import minimal_pairs

        scores = minimal_pairs.score(
            trained, self.input, self.pairs, self.baseline, self.score, self.normalize
        )
        scores = {"suite": self.suite, **scores}
        if self.suite != "blimp":
            del scores["published"]
        return scores, minimal_pairs.pair_lines({**scores, "step": trained.step})


@config_class
class ProbeOptions(Scored):
    """A task whose words each layer is probed on."""

    probe: Annotated[Literal["layers"], ChoosesMode()]
    """layers: accuracy of a linear model on each layer of the frozen model, for the tagged words of
    `task`"""
    task: Path
    split: str = "dev"

    def scores(self, trained: TrainedModel) -> Scores:
        """Return the accuracy of each layer."""
        from clozeline.extensions.evaluation.layer_probes import probe_lines, probe_scores

        scores = probe_scores(trained, self.task, self.split)
        return scores, probe_lines({**scores, "step": trained.step})


def score_task(options: EvaluateOptions, world: World | None = None) -> tuple[str, list[str]]:
    """Score a run on its task, and write its predictions.

    Return the scores as JSON text, and lines about its errors.
    """
    from clozeline.extensions.tasks.answer_threshold import store_threshold
    from clozeline.extensions.tasks.error_analysis import (
        collect_answers,
        error_lines,
        record_lines,
    )
    from clozeline.extensions.tasks.scores import scores_of, to_json
    from clozeline.extensions.tasks.task_heads._task_head import merge_shares
    from clozeline.extensions.tasks.task_run import open_task_run, set_rows

    opened = open_task_run(options.run, options.split, options.task, options.step, options.data)
    computed = {
        name: getattr(options, name).wrap(opened.trained.model, opened.head)
        for name in options.ADDED
        if getattr(options, name) is not None
    }
    for compute in computed.values():
        opened = replace(opened, compute=compute)
    rows = set_rows(opened.shards)
    answer = opened.answer

    if options.tune and not opened.facts.unanswerable:
        raise ConfigurationError(
            f"tune: {opened.facts.name} has no questions without answers, remove the key"
        )

    rank, size = (0, 1) if world is None else (world.rank, world.size)
    share = answer.predict(opened.task, rows, rank, size)
    shares = [share] if world is None else world.gather(share)
    used: dict[str, object] = {}
    for name, compute in computed.items():
        counts = [compute.counts] if world is None else world.gather(compute.counts)
        used[name] = {"rule": str(getattr(options, name)), **compute.usage(counts)}

    result: tuple[str, list[str]] = "", []

    if rank == 0:
        predicted = merge_shares(shares, len(rows))

        if options.tune:
            threshold, f1 = answer.choose_threshold(rows, predicted)
            store_threshold(
                options.run,
                threshold,
                {"checkpoint": opened.trained.digest, "set": opened.shards.digest, "f1": f1},
            )
            opened = replace(opened, threshold=threshold)

        lines: list[str] = []

        if options.predictions is not None or options.errors:
            records = collect_answers(opened, rows, predicted)
            if options.predictions is not None:
                publish_text(
                    options.predictions, "".join(f"{line}\n" for line in record_lines(records))
                )
            if options.errors:
                lines = list(error_lines(answer, records))

        result = to_json({**scores_of(opened, rows, predicted, options.metrics), **used}), lines

    return result if world is None else world.gather(result)[0]


def training_lines(run: Path, step: int) -> list[str]:
    """Return what the training losses of a run say about its newest checkpoint.

    Nothing for other checkpoints, or for a model folder.
    """
    from clozeline.train.logs.diagnosis import diagnose_run

    steps = [step_of(path.name) for path in steps_in(run / "checkpoints")]
    if not steps or step != max(steps):
        return []
    return diagnose_run(replace(read_config(run), output=run))


def evaluate_mode(
    options: PerplexityOptions | SuiteOptions | ProbeOptions,
) -> tuple[str, Iterator[str]]:
    """Return the scores of a run on texts as JSON text and as lines."""
    from clozeline.extensions.tasks.scores import to_json

    trained = TrainedModel.open(options.run, options.step)
    scores, lines = options.scores(trained)
    return to_json({**trained.provenance, **scores}), lines


def score_heldout(options: EvaluateOptions) -> tuple[str, list[str]]:
    """Return the losses of a run that is trained on texts, as JSON text and as lines.

    The lines include what its training log says.
    """
    from clozeline.extensions.evaluation.heldout_losses import heldout_lines, heldout_losses
    from clozeline.extensions.tasks.scores import to_json

    if non_default_keys(options).keys() & {
        "split",
        "task",
        "metrics",
        "predictions",
        "errors",
        "tune",
        *options.ADDED,
    }:
        raise ConfigurationError(
            f"{options.run}: is trained on texts: expected step and output alone, which give its "
            "loss on held-out rows; name a task (task=FOLDER) to score it on, or texts "
            "(perplexity=TEXTS)"
        )

    trained = TrainedModel.open(options.run, options.step)
    scores = heldout_losses(trained, options.data)
    return to_json(scores), [*heldout_lines(scores), *training_lines(options.run, trained.step)]


def _evaluate(
    options: EvaluateOptions | PerplexityOptions | SuiteOptions | ProbeOptions,
) -> None:
    from clozeline.extensions.evaluation.heldout_losses import is_trained_on_texts
    from clozeline.extensions.tasks.scores import lines_of, write_scores
    from clozeline.train.distributed.launcher import describe_environment
    from clozeline.train.distributed.process_group import join_process_group

    if not isinstance(options, EvaluateOptions):
        text, shown = evaluate_mode(options)
        write_scores(text, options.output, None if options.json else shown)
        return

    if options.task is None and is_trained_on_texts(options.run):
        text, told = score_heldout(options)
        write_scores(text, options.output, None if options.json else told)
        return

    # the ranks share the rows of a task
    _, size = describe_environment(os.environ)
    world = join_process_group() if size > 1 else None
    text, errors = score_task(options, world)

    if world is None or world.rank == 0:
        scores = json.loads(text)
        training = [] if options.json else training_lines(options.run, scores["step"])
        lines = None if options.json else [*lines_of(scores), *errors, *training]
        write_scores(text, options.output, lines)

    if world is not None:
        world.shutdown()


def main(arguments: Sequence[str]) -> int:
    modes = (EvaluateOptions, PerplexityOptions, SuiteOptions, ProbeOptions)
    return run_tool(__doc__, arguments, modes, _evaluate, prints=True)


if __name__ == "__main__":
    run_as_script(main)
