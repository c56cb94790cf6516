"""Show what an objective makes of a sentence.

    clozeline show OBJECTIVE "A sentence." [key=value ...]

Prints the text, and what the model reads and learns, as the tables of textbooks: labels stand
below the input, `__` marks a position without loss, and `|` ends a sentence or a prefix.
Without OBJECTIVE, all objectives are listed. The options of an objective are keys too: `clozeline
show masked_lm "It is raining." mask_rate=0.4 seed=3`; `clozeline show masked_lm --help` lists them.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from clozeline import plugins
from clozeline.command_line import OtherKeys, Positional
from clozeline.configuration.config import ONE_OR_MORE, Names, apply_words, config_class
from clozeline.errors import ConfigurationError, join_names, write_note
from clozeline.extensions.preview import CorruptedText, corrupt_text
from clozeline.extensions.preview.corrupted_text import OTHERS
from clozeline.extensions.preview.draw_counts import MOST_DRAWS, DrawCount, count_draws
from clozeline.files import publish_text
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.report.terminal_view import print_view
from clozeline.report.views import Cell, Section, Table
from clozeline.terminal import Terminal
from clozeline.tools.command import Natural, OutputPath, run_as_script, run_tool

_TEXT: Final = "The kitten is chasing the ball. It rolls away."
_TARGET: Final = "Das Kätzchen jagt den Ball. Er rollt davon."


def _options_of_objective(words: Sequence[str]) -> Iterator[type]:
    """Yield the options of the objective among the words."""
    for word in words:
        if word in OBJECTIVES.available():
            yield OBJECTIVES.load_class(word).Options
            return


@config_class
class ShowSettings:
    """Settings of `clozeline show`."""

    objective: Annotated[str | None, Positional(0)] = None
    """name of an objective; none: list them"""
    text: Annotated[str | None, Positional(1)] = None
    """text to corrupt; default: 'The kitten is chasing the ball. It rolls away.'"""
    picture: OutputPath | None = None
    """also draw what each position reads, as SVG"""
    tokenizer: str | None = None
    """Folder or file of a tokenizer, trained here or published, `hf://org/name`, or a pipeline's
    output; null: words are the tokens."""
    choose: Annotated[list[int | str | dict[str, int | str]], ONE_OR_MORE] = field(
        default_factory=list
    )
    """What to corrupt, instead of a random choice: `[4: mask, 7: hat, 9: keep]`, spans `[2-3, 6]`,
    an order `[2, 1]`, or the answer `[no]` for sentence pairs. Tokens of the text, and its
    sentences, count from 1."""
    part: str | None = None
    """Label of the part of a mixture that corrupts the text; null: the seed draws one."""
    seed: Natural = 1
    """Seed of all random choices."""
    variant: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Another draw: 0, 1, 2, …"""
    draws: Annotated[int, Field(ge=0, le=MOST_DRAWS)] = 0
    """Corrupt the text this often, and print counts with the expected shares; 0: show one draw."""
    target: str = ""
    """Other side of the text, such as a translation, for objectives on pairs."""
    others: Names = field(default_factory=lambda: list(OTHERS))
    """Documents from which next sentence prediction takes a sentence that is not the next one."""
    words: Annotated[
        tuple[str, ...],
        OtherKeys(
            "options of the objective, which `clozeline show OBJECTIVE --help` lists",
            _options_of_objective,
        ),
    ] = ()


def show(settings: ShowSettings, objective: str) -> CorruptedText:
    """Corrupt the text of the settings, by default a sample; `words` are options of the objective.

    A ConfigurationError names the nearest objective or key where one is unknown.
    """
    schema = OBJECTIVES.load_class(objective).Options
    options = apply_words(schema, {}, settings.words)
    text = settings.text
    return corrupt_text(
        {"name": objective, **options},
        _TEXT if text is None else text,
        target=settings.target or (_TARGET if text is None else ""),
        tokenizer=settings.tokenizer,
        others=settings.others,
        choose=settings.choose,
        part=settings.part,
        variant=settings.variant,
        seed=settings.seed,
    )


def _objectives() -> Table:
    """Return the objectives with the first lines of their docstrings."""
    rows = [
        (name, inspect.cleandoc(kind.__doc__ or "").partition("\n")[0])
        for name, kind in OBJECTIVES.classes().items()
    ]
    return Table("", ("objective", "meaning"), rows)


def _draw_table(counts: Sequence[DrawCount]) -> Table:
    """Return a table of counts."""
    rows: list[Sequence[Cell]] = [
        (one.name, one.count, one.total, *map(_digits, (one.share, one.expected, one.error)))
        for one in counts
    ]
    return Table("", ("", "count", "of", "share or mean", "expected", "standard error"), rows)


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _show(settings: ShowSettings) -> None:
    if settings.objective is None:
        if settings.words:
            raise ConfigurationError(f"{settings.words[0]}: OBJECTIVE comes first; see --help")
        hint = 'Try one: clozeline show masked_lm "It is raining."'
        print_view(Section("", [_objectives(), hint]), Terminal())
        return

    plugins.allow(settings.objective)
    shown = show(settings, settings.objective)

    if settings.picture is not None:
        from clozeline.extensions.preview.attention_picture import draw_attention  # imports torch

        publish_text(settings.picture, draw_attention(shown))

    if settings.draws:
        counts = count_draws(shown, settings.draws, settings.seed)
        note = (
            "Shares of tokens and lengths of spans are those of long texts: short ones round them."
        )
        print_view(Section("", [_draw_table(counts), note]), Terminal())
        return

    print_view(Section("", [shown.lines()]), Terminal())
    special = shown.codec.words(np.flatnonzero(shown.codec.vocabulary.special).tolist())
    if typed := [piece for piece in special if piece in (settings.text or "")]:
        choices = shown.objective.choices
        hint = (
            "" if choices is None else f"; write a word, and choose it: choose='{choices.example}'"
        )
        write_note(f"{join_names(typed)} in the text is plain text, as in a corpus{hint}")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ShowSettings, _show, prints=True)


if __name__ == "__main__":
    run_as_script(main)
