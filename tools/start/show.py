"""Show what an objective makes of a sentence: `clozeline show OBJECTIVE "A sentence." [key=value ...]`.

Prints the text and the example, with colors for masks, replaced tokens and spans, and the labels.
Without OBJECTIVE, all objectives are listed. The options of an objective are keys too: `clozeline
show masked_lm "It is raining." mask_rate=0.4 seed=3`; `clozeline show masked_lm --help` lists them.
"""

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Final

from pydantic import Field
from rich import box
from rich.table import Table

from clozeline import plugins
from clozeline.configuration.config import Names, config_class
from clozeline.configuration.named_algorithms import allow_words
from clozeline.configuration.overrides import override
from clozeline.files import publish_text
from clozeline.pipeline.corrupt.preview import CorruptedText, corrupt_text
from clozeline.pipeline.corrupt.preview.corrupted_text import OTHERS
from clozeline.pipeline.corrupt.preview.view import show_view
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.terminal import Terminal
from clozeline.tools.command import (
    Arguments,
    IntermixedArguments,
    add_settings,
    run_as_script,
    run_tool,
    some_path,
    split_settings,
)

_TEXT: Final = "The kitten is chasing the ball. It rolls away."
_TARGET: Final = "Das Kätzchen jagt den Ball. Er rollt davon."


@config_class
class ShowSettings:
    """Settings of `clozeline show`."""

    tokenizer: str | None = None
    """Folder or file of a tokenizer, trained here or published, `hf://org/name`, or a pipeline's
    output; null: words are the tokens."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Seed of all random choices."""
    variant: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Number of the corruption of the text."""
    target: str = ""
    """Other side of the text, such as a translation, for objectives on pairs."""
    others: Names = field(default_factory=lambda: list(OTHERS))
    """Documents from which next sentence prediction takes a sentence that is not the next one."""


def show(name: str, text: str | None, words: Sequence[str]) -> CorruptedText:
    """Corrupt a text, by default a sample, with the settings and options in `key=value` words.

    A ConfigurationError names the nearest objective or key where one is unknown.
    """
    kind = OBJECTIVES.load_class(name)
    known = {field.name for schema in (ShowSettings, kind.Options) for field in fields(schema)}
    if text is not None and text.partition("=")[0].split(".")[0] in known:
        words = [text, *words]
        text = None
    settings, others = split_settings(ShowSettings, words)
    allow_words(kind.Options, others)
    options: dict[str, Any] = override(kind.Options, {}, others, "command line")
    target = settings.target or (_TARGET if text is None else "")
    return corrupt_text(
        {"name": name, **options},
        _TEXT if text is None else text,
        target=target,
        tokenizer=settings.tokenizer,
        others=settings.others,
        variant=settings.variant,
        seed=settings.seed,
    )


def _objectives() -> Table:
    """Return the objectives with the first lines of their docstrings."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("objective", "meaning"):
        table.add_column(column)
    for name in OBJECTIVES.available():
        table.add_row(
            name, inspect.cleandoc(OBJECTIVES.load_class(name).__doc__ or "").partition("\n")[0]
        )
    return table


def _parser(arguments: Sequence[str]) -> Arguments:
    """Return the parser; its help also lists the options of the objective among the arguments."""
    named = [
        OBJECTIVES.load_class(word).Options for word in arguments if word in OBJECTIVES.available()
    ]
    parser = IntermixedArguments(__doc__)
    parser.add_argument(
        "objective", nargs="?", metavar="OBJECTIVE", help="name of an objective; none: list them"
    )
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help=f"text to corrupt (default: {_TEXT!r})"
    )
    parser.add_argument("--html", type=some_path, metavar="FILE", help="also write a web page")
    parser.add_argument(
        "--picture",
        type=some_path,
        metavar="FILE",
        help="also draw what each position reads, as SVG",
    )
    parser.add_argument(
        "--aligned",
        action="store_true",
        help="print each label below its position, as textbooks do",
    )
    listed = (
        "settings, listed below, and options of the objective, which `clozeline show OBJECTIVE "
        "--help` lists"
    )
    add_settings(parser, ShowSettings, *named[:1], help_text=listed)
    return parser


def main(arguments: Sequence[str]) -> int:
    def action(options: argparse.Namespace) -> None:
        if options.objective is None:
            Terminal().print(_objectives())
            print('Try one: clozeline show masked_lm "It is raining."')
            return
        plugins.allow(options.objective)
        shown = show(options.objective, options.text, options.overrides)
        if options.picture is not None:
            from clozeline.tools.shards.viewer.attention_picture import (
                draw_attention,
            )  # imports torch

            publish_text(options.picture, draw_attention(shown))
        if options.aligned:
            print(shown)
        else:
            show_view(shown.view(), options.html)

    return run_tool(_parser(arguments), arguments, action, prints=True)


if __name__ == "__main__":
    run_as_script(main)
