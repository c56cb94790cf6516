"""Label rows by prompts.

    clozeline prompt mine/run template=configs/prompts/polarity.yaml input=texts.csv [shots=4 ...]

A template (YAML) writes a row as text with a slot for the label. The label whose words get the
highest score in that slot is the answer; nothing is trained. `answers=FILE` limits the answers to
the lines of a file instead. A masked model fills the slot (cloze), a decoder continues the text
before it, an encoder-decoder generates it. With `shots=4 train=FILE`, four labeled rows of that
file precede each row, never the row itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.evaluation.prompting.answers import Normalization, answer_rows
from clozeline.extensions.evaluation.prompting.report import (
    prediction_lines,
    prompt_lines,
    prompt_scores,
)
from clozeline.extensions.evaluation.prompting.scorers import Masks, Mode, open_scorer
from clozeline.extensions.evaluation.prompting.template import (
    Demonstrations,
    PromptRows,
    Selection,
    limit_answers,
    read_rows,
    read_template,
)
from clozeline.extensions.tasks.scores import to_json, write_scores
from clozeline.files import file_hash, publish_text
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.command import Natural, OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, JsonSwitch, RunArgument
from clozeline.tools.runs.inference.generated_text import read_allowed
from clozeline.train.checkpoint.trained_model import TrainedModel


@config_class
class PromptOptions(CheckpointChoice, JsonSwitch, RunArgument):
    """A template, the rows to label, and how to prompt the model."""

    template: Path
    """file with the template, such as configs/prompts/polarity.yaml"""
    input: Path
    """rows to label: a table, or lines of JSON"""
    normalize: NormalForm = "prose"
    """stored form of rows, answers and template, as `clean.normalize` of the training data; none
    leaves them"""
    answers: tuple[Annotated[str, Field(min_length=1)], ...] | Path | None = None
    """the only answers instead of the template's labels, as a list or as a file with one per
    line"""
    train: Path | None = None
    """labeled rows for demonstrations and for the majority baseline"""
    shots: Annotated[int, Field(ge=0, le=1024)] | None = None
    """demonstrations per row; default: the template's"""
    shot_selection: Selection | None = None
    """random, balanced or fixed; default: the template's"""
    score: Normalization = "sum"
    """score of a word: sum of log-probabilities, mean over its tokens, per_byte, or pmi (minus that
    without content)"""
    mode: Mode | None = None
    """cloze, causal or answer; default: the first that the training prepared"""
    masks: Masks = "left_to_right"
    """cloze: words of several tokens are predicted left_to_right, or independently"""
    window: Annotated[int, Field(ge=2)] | None = None
    """maximum tokens per row; default: all that the model reads"""
    batch_tokens: Positive = 2048
    """maximum positions per batch; affects only the speed"""
    seed: Natural = 0
    """seed of the demonstrations"""
    output: OutputPath | None = None
    """file for the JSON"""
    predictions: OutputPath | None = None
    """file for one JSON line per row: its prediction, scores and demonstrations"""


def prompt_run(options: PromptOptions) -> tuple[dict[str, object], list[str]]:
    """Return the scores of a run, and one line per row."""
    template = read_template(options.template, options.normalize)

    if options.answers is not None:
        template = limit_answers(template, read_allowed(options.answers, options.normalize))
    elif not template.labels:
        raise ConfigurationError(
            f"{options.template}: has no labels; add them, or name the answers: answers=FILE"
        )

    shots = template.shots if options.shots is None else options.shots
    selection = options.shot_selection or template.shot_selection

    if shots and options.train is None:
        raise ConfigurationError(
            f"shots={shots}: expected train=FILE, labeled rows to take demonstrations from"
        )

    rows = read_rows(options.input, template, options.normalize, labeled=False)
    pool = PromptRows([], rows.refused - rows.refused)
    if options.train is not None:
        pool = read_rows(options.train, template, options.normalize, labeled=True)
    demonstrations = Demonstrations(pool.rows, shots, selection, options.seed)
    trained = TrainedModel.open(options.run, options.step)
    scorer, mode = open_scorer(trained, options.mode, options.masks, options.batch_tokens)
    window = trained.row_length(options.window, "window")
    answered = answer_rows(rows.rows, template, demonstrations.of, scorer, window, options.score)
    scores = {
        "task": options.template.stem,
        "template": file_hash(options.template),
        "mode": mode,
        "score": options.score,
        "masks": options.masks if mode == "cloze" else None,
        "shots": shots,
        "shot_selection": selection,
        "seed": options.seed,
        "window": window,
        **trained.provenance,
        **prompt_scores(answered, [*template.labels], pool.rows),
        "refused": dict(sorted(rows.refused.items())),
        "refused_of_train": dict(sorted(pool.refused.items())),
    }

    return scores, [*prediction_lines(answered, [*template.labels])]


def _prompt(options: PromptOptions) -> None:
    scores, lines = prompt_run(options)
    if options.predictions is not None:
        publish_text(options.predictions, "".join(f"{line}\n" for line in lines))
    write_scores(to_json(scores), options.output, None if options.json else prompt_lines(scores))


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, PromptOptions, _prompt)


if __name__ == "__main__":
    run_as_script(main)
