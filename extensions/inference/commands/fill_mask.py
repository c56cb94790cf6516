"""Fill masks with a trained model: `clozeline fill-mask mine/run ["a <mask> word"]`.

The model predicts the `<mask>` of each sentence, also written `[MASK]` or `___`. A mask is one
piece of a word: try `<mask><mask>` for longer words. Several masks are filled one after another,
the most certain one first; `beam=W` keeps the W best fillings meanwhile. Without TEXT, it reads
lines: `clozeline fill-mask mine/run < sentences.txt`.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Annotated, Any

from numpy.typing import NDArray
from rich.markup import escape

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.pipeline.text.normal_form import normalize_field
from clozeline.terminal import Terminal
from clozeline.tools.command import Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.runs.inference.masked_text import (
    MASK,
    encode_masked_text,
    guesses,
    unify_masks,
)
from clozeline.train.checkpoint.trained_model import TrainedModel


@config_class
class FillOptions(CheckpointChoice, RunArgument):
    """Sentences with masks, and how they are filled."""

    text: Annotated[Names, Positional(1)] = field(default_factory=list)
    """sentences with <mask>s"""
    beam: Positive = 1
    """fillings of several masks"""
    top: Positive = 5
    """predictions to show"""


def _show_guesses(
    console: Terminal, trained: TrainedModel, text: str, ids: NDArray[Any], position: int, top: int
) -> None:
    shown = escape(unify_masks(trained, text)).replace(MASK, "[bold]____[/bold]")
    console.print(shown, highlight=False, soft_wrap=True)
    best = [
        (guess.text.strip() or ("⏎" if "\n" in guess.text else "␣"), guess.probability)
        for guess in guesses(trained, ids, position, top)
    ]
    listed = "  ".join(f"{escape(piece)} {probability:.2f}" for piece, probability in best)
    console.print(f"    guesses: {listed}", highlight=False, soft_wrap=True)


def _show_fillings(console: Terminal, trained: TrainedModel, text: str, width: int) -> None:
    from clozeline.extensions.inference.filled_text import fill_text, parts_of

    decoding = Decoding(mode="unmask", width=width)
    for filling in fill_text(trained, text, decoding, width):
        shown = "".join(
            f"[bold]{escape(part)}[/bold]" if new else escape(part)
            for part, new in parts_of(trained, filling)
        )
        console.print(
            f"{shown.strip()} [dim]({filling.score:.3f})[/dim]", highlight=False, soft_wrap=True
        )


def _fill(options: FillOptions) -> None:
    console = Terminal()
    asks = not options.text and sys.stdin.isatty()
    lines: Iterable[str] = sys.stdin if asks else options.text or sys.stdin.read().splitlines()
    if not lines:
        raise ConfigurationError("TEXT is missing: write 'a <mask> word'")
    trained = TrainedModel.open(options.run, options.step)
    targets = {head.target for head in trained.model.heads.values()}
    if "masked_lm" not in targets:
        what = f"it has {', '.join(trained.model.heads)}"
        if "lm" in targets:
            what = f"it predicts the next token: clozeline generate {options.run} 'a text'"
        raise ConfigurationError(
            f"{options.run}: expected a model that fills masks (a head masked_lm), {what}"
        )

    if asks:
        console.print("a text with <mask>, one for each piece of a word, then Enter (Ctrl-D ends):")
    for line in filter(str.strip, lines):
        text = normalize_field("prose", line)  # as `generate` takes its text
        ids, positions = encode_masked_text(trained, text)
        if len(positions) == 1:
            _show_guesses(console, trained, text, ids, positions[0], options.top)
        else:
            _show_fillings(console, trained, text, options.beam)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, FillOptions, _fill, prints=True)


if __name__ == "__main__":
    run_as_script(main)
