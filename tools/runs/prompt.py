"""Label rows by prompts: `clozeline prompt RUN template=configs/prompts/polarity.yaml input=FILE [shots=4 ...]`.

A template (YAML) writes a row as text with a place for the label. The label whose words the model gives the highest
score in that place is the answer; nothing is trained. A masked model fills the place in (cloze), a decoder continues
the text before it, an encoder-decoder writes it. With `shots=4 train=FILE`, four labelled rows of that file come before
each row, never the row itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.files import file_hash, publish
from clozeline.tools.command import IntermixedArguments, run_tool, some_path
from clozeline.tools.runs.evaluation.scores import text_of
from clozeline.tools.runs.inference.trained_model import TrainedModel, load_trained
from clozeline.tools.runs.prompting.answers import Normalise, answer_rows
from clozeline.tools.runs.prompting.candidates import Masks
from clozeline.tools.runs.prompting.demonstrations import Demonstrations, Selection
from clozeline.tools.runs.prompting.report import prediction_lines, prompt_lines, prompt_scores
from clozeline.tools.runs.prompting.rows import PromptRows, read_rows
from clozeline.tools.runs.prompting.scorers import Mode, open_scorer
from clozeline.tools.runs.prompting.template import read_template
from clozeline.tools.settings import add_settings, settings_of
from clozeline.train.checkpoint.run_weights import find_checkpoint


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PromptOptions:
    """A template, the rows, and how they are asked."""

    template: Path
    """file with the template, such as configs/prompts/polarity.yaml"""
    input: Path
    """rows to label: lines of JSON, or a .tsv with a header"""
    train: Path | None = None
    """labelled rows of which demonstrations are taken, and the majority"""
    shots: Annotated[int, Field(ge=0, le=1024)] | None = None
    """demonstrations before a row; default: those of the template"""
    shot_selection: Selection | None = None
    """random, balanced or fixed; default: that of the template"""
    score: Normalise = "sum"
    """score of a word: sum of log-probabilities, mean (of its tokens), per_byte, or pmi (less that without content)"""
    mode: Mode | None = None
    """cloze, causal or answer; default: the first that the training prepared"""
    masks: Masks = "left_to_right"
    """cloze: words of several tokens are predicted left_to_right, or independent of each other"""
    window: Annotated[int, Field(ge=2)] | None = None
    """tokens of a row at most; default: all that the model reads"""
    batch_tokens: Annotated[int, Field(ge=1)] = 2048
    """places of a batch; it changes nothing but the time"""
    seed: Annotated[int, Field(ge=0)] = 0
    """of the demonstrations"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""
    output: Path | None = None
    """file for the JSON"""
    predictions: Path | None = None
    """file for a line of JSON for each row: its prediction, scores and demonstrations"""


def prompt_run(run: Path, options: PromptOptions) -> tuple[dict[str, Any], list[str]]:
    """Return the scores of a run, and a line for each row.

    Raises:
        ClozelineError: the run was not trained for the mode, a file is damaged, or words have no tokens.
    """
    template = read_template(options.template)
    shots = template.shots if options.shots is None else options.shots
    selection = options.shot_selection or template.shot_selection
    if shots and options.train is None:
        raise ConfigurationError(f"shots={shots}: expected train=FILE, labelled rows of which demonstrations are taken")
    rows = read_rows(options.input, template, labelled=False)
    pool = PromptRows([], rows.refused - rows.refused)
    if options.train is not None:
        pool = read_rows(options.train, template, labelled=True)
    demonstrations = Demonstrations(pool.rows, shots, selection, options.seed)
    directory, _ = find_checkpoint(run, options.step)
    trained = load_trained(run, options.step)
    scorer, mode = open_scorer(run, trained, options.mode, options.masks, options.batch_tokens)
    window = _window(trained, options.window)
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
        "step": trained.step,
        "checkpoint": file_hash(directory / "checkpoint.json"),
        "tokenizer": trained.tokenizer.vocabulary.fingerprint,
        **prompt_scores(answered, [*template.labels], pool.rows),
        "refused": dict(sorted(rows.refused.items())),
        "refused_of_train": dict(sorted(pool.refused.items())),
    }
    return scores, [*prediction_lines(answered, [*template.labels])]


def _window(trained: TrainedModel, wanted: int | None) -> int:
    """Return the tokens that a row may have."""
    limit = trained.model.position_limit
    if wanted is None:
        return trained.max_length
    if limit is not None and wanted > limit:
        raise ConfigurationError(f"window={wanted}: the position table has room for {limit} tokens")
    return wanted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, PromptOptions)
    parser.add_argument("--json", action="store_true", help="print the JSON alone")

    def action(options: argparse.Namespace) -> int:
        chosen = settings_of(PromptOptions, options.overrides)
        scores, lines = prompt_run(options.run, chosen)
        _write(chosen.predictions, "".join(f"{line}\n" for line in lines))
        _write(chosen.output, text_of(scores))
        sys.stdout.write(text_of(scores) if options.json else "".join(f"{line}\n" for line in prompt_lines(scores)))
        return 0

    return run_tool(parser, arguments, action)


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        with publish(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
