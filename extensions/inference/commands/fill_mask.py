"""Fill masks with a trained model: `clozeline fill-mask mine/run ["a <mask> word"] [heldout=N]`.

The model predicts the `<mask>` of each sentence, also written `[MASK]` or `___`. A mask is one
piece of a word: try `<mask><mask>` for longer words. Several masks are filled one after another,
the most certain one first; `beam=W` keeps the W best fillings meanwhile. With
`heldout`, it predicts one masked word in each of N held-out rows, and the original word is printed
as well.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Annotated, Any

from numpy.typing import NDArray
from rich.markup import escape

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.configuration.paths import local_path
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.manifest import manifest_path
from clozeline.pipeline.text.normal_form import normalize_field
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.terminal import Terminal
from clozeline.tools.command import Natural, Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.runs.data import run_sets
from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
from clozeline.train.checkpoint.trained_model import TrainedModel

SHOWN = 14
"""tokens shown on each side of the masked word"""
SHORTEST_WORD = 4


@config_class
class FillOptions(CheckpointChoice, run_sets.MovedSets, RunArgument):
    """Sentences with masks, and how they are filled."""

    text: Annotated[Names, Positional(1)] = field(default_factory=list)
    """sentences with <mask>s"""
    beam: Positive = 1
    """fillings of several masks"""
    heldout: Natural = 0
    """mask one word in each of so many held-out rows"""
    top: Positive = 5
    """predictions to show"""


def iterate_masked_words(
    trained: TrainedModel, shards: ShardSet, max_rows: int
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield held-out rows, and the position of a single-token word near the middle.

    Rows have their original tokens.

    The rows are spread evenly over a set of masked examples.
    """
    tokenizer = trained.tokenizer
    yielded = 0

    for row in range(0, len(shards), max(1, len(shards) // (4 * max_rows))):
        block, number = shards.locate(row)
        example = shards.read_block(block).row(number)
        # undo the masking
        ids = example["input_ids"].copy()
        ids[example["label_positions"]] = example["label_ids"]
        # words of one token: it opens a word, and the next one opens another, or has no letter
        opens = tokenizer.vocabulary.opens_word(ids)
        pieces = [tokenizer.decode_part([int(token)]) for token in ids]
        words = [
            position
            for position, word in enumerate(piece.strip() for piece in pieces[:-1])
            if opens[position]
            and (opens[position + 1] or not pieces[position + 1][:1].isalnum())
            and len(word) >= SHORTEST_WORD
            and word.isalpha()
            and word.islower()
        ]
        if words:
            yield ids, min(words, key=lambda position: abs(position - len(ids) // 2))
            yielded += 1

        if yielded == max_rows:
            return


def _show(
    console: Terminal,
    trained: TrainedModel,
    ids: NDArray[Any],
    position: int,
    top: int,
    *,
    answer: bool,
) -> None:
    tokenizer = trained.tokenizer
    masked = ids.copy()
    masked[position] = tokenizer.vocabulary.id_of("mask", "a guess")
    left = _decode_line(tokenizer, ids[max(1, position - SHOWN) : position])
    right = _decode_line(tokenizer, ids[position + 1 : min(len(ids) - 1, position + 1 + SHOWN)])
    console.print(
        f"{escape(left.rstrip())} [bold]____[/bold]{escape(right)}", highlight=False, soft_wrap=True
    )
    best = [
        (guess.text.strip() or ("⏎" if "\n" in guess.text else "␣"), guess.probability)
        for guess in guesses(trained, masked, position, top)
    ]
    listed = "  ".join(f"{escape(piece)} {probability:.2f}" for piece, probability in best)
    word = (
        f"hidden: [green]{escape(tokenizer.decode_part([int(ids[position])]).strip())}[/green]   "
        if answer
        else ""
    )

    console.print(f"    {word}guesses: {listed}", highlight=False, soft_wrap=True)


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


def _decode_line(tokenizer: Tokenizer, ids: NDArray[Any]) -> str:
    text = tokenizer.decode_part([int(token) for token in ids])
    return " " * text.startswith(" ") + " ".join(text.split())


def _fill(options: FillOptions) -> None:
    console = Terminal()
    lines: Iterable[str] = options.text
    if not options.text and not options.heldout:
        if not sys.stdin.isatty():
            raise ConfigurationError("TEXT is missing: write 'a <mask> word', or heldout=5")
        lines = sys.stdin
    trained = TrainedModel.open(options.run, options.step)
    targets = {head.target for head in trained.model.heads.values()}
    if "masked_lm" not in targets:
        what = f"it has {', '.join(trained.model.heads)}"
        if "lm" in targets:
            what = f"it predicts the next token: clozeline generate {options.run} 'a text'"
        raise ConfigurationError(
            f"{options.run}: expected a model that fills masks (a head masked_lm), {what}"
        )

    if lines is sys.stdin:
        console.print("a text with <mask>, one for each piece of a word, then Enter (Ctrl-D ends):")
    for line in lines:
        text = normalize_field("prose", line)  # as `generate` takes its text
        ids, positions = encode_masked_text(trained, text)
        if len(positions) == 1:
            _show(console, trained, ids, positions[0], options.top, answer=False)
        else:
            _show_fillings(console, trained, text, options.beam)

    if options.heldout:
        for ids, position in iterate_masked_words(
            trained, _open_heldout_set(trained, options.data), options.heldout
        ):
            _show(console, trained, ids, position, options.top, answer=True)


def _open_heldout_set(trained: TrainedModel, set_paths: run_sets.SetPaths) -> ShardSet:
    from clozeline.train.data.sets.datasets import heldout_paths

    run = trained.folder
    config = trained.require_config("write a TEXT with a mask, or give a run")
    data = run_sets.locate_sets(run, config.data, set_paths)
    with run_sets.explain_missing_sets(run, data):
        open_shards(data.first_set, options=data.store)
        path = next(iter(heldout_paths(data).values()), None)
        if path is None:
            folder = manifest_path(local_path(data.first_set)).parent.with_name("heldout")
            how = f"copy it to {folder}, or name one by data.heldout=MANIFEST"
            raise ConfigurationError(f"heldout: {run} has no held-out set: {how}")
        shards = open_shards(path, options=data.store)

    if not {"input_ids", "label_positions", "label_ids"} <= {spec.name for spec in shards.columns}:
        raise ConfigurationError(
            f"heldout: {path} holds {shards.manifest.kind} without masks; name a set below "
            "corrupt/ by data.heldout=MANIFEST"
        )

    return shards


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, FillOptions, _fill, prints=True)


if __name__ == "__main__":
    run_as_script(main)
