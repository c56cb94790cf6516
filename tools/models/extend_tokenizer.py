"""Add the words of a domain to a tokenizer: `clozeline extend-tokenizer MODEL input=TEXTS output=DIR pieces=500`.

The tokenizer of MODEL (a run, an imported model, or one of our tokenizers) encodes the texts, and the most frequent
neighboring pieces are merged, as in training, into new pieces with the next ids. Existing ids, pieces and merges stay.
Sets made with `tokenizer.path=DIR` train a model with `model.init_from=MODEL`, whose embedding table grows by one row
per new id.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from tokenizers import Tokenizer, models, trainers

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.tokenize.published.folders import SOURCE, own_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.repair import cannot_write
from clozeline.tools.command import IntermixedArguments, add_settings, plural, run_tool, settings_of, some_path
from clozeline.tools.runs.evaluation.local_texts import texts_of_files

_SHOWN = 12


@config_class
class ExtendOptions:
    """Texts of the domain, and the pieces to learn from them."""

    input: Annotated[Path, HOME_EXPANDED]
    """file or folder of texts: the field `text` of lines of JSON, any other file as one text"""
    output: Annotated[Path, HOME_EXPANDED]
    """folder for the tokenizer; it is new"""
    pieces: Annotated[int, Field(ge=1, le=1 << 20)] = 500
    """new pieces at most"""
    min_frequency: Annotated[int, Field(ge=2)] = 20
    """times that a new piece must occur in the texts"""


def extend_tokenizer(model: Path, options: ExtendOptions) -> str:
    """Write the extended tokenizer, and return a line about it."""
    source = own_tokenizer(model)
    if source is None:
        raise ConfigurationError(f"{model}: expected a run, an imported model, or one of our tokenizers")
    tokenizer: Any = load_tokenizer(source.folder)
    if not hasattr(tokenizer, "extend"):
        raise ConfigurationError(
            f"{model}: tokenizer type {source.kind} takes no pieces, only WordPiece and byte-level BPE do"
        )
    if options.output.exists():
        raise ConfigurationError(f"output: {options.output} is there already; choose a new folder")
    counts = Counter(tokenizer.words(texts_of_files(options.input)))
    cuts = {word: tokenizer.cut(word) for word in counts}
    splittable = {word: count for word, count in counts.items() if cuts[word]}
    merges = learn_merges(tokenizer, Counter(splittable), cuts, options)
    if not merges:
        raise ConfigurationError(f"{options.input}: no two pieces are neighbors {options.min_frequency} times")
    # write it complete or not at all
    output = options.output
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as temporary:
            larger = tokenizer.extend(merges, Path(temporary) / output.name)
            save_tokenizer(larger, source.kind, Path(temporary) / output.name)
            if (source.folder / SOURCE).is_dir():
                shutil.copytree(source.folder / SOURCE, Path(temporary) / output.name / SOURCE)
            (Path(temporary) / output.name).rename(output)
    except OSError as error:
        raise StorageError(cannot_write(output, error)) from error
    # tokens a word before and now
    words = sum(splittable.values())
    both = (cuts.__getitem__, larger.cut)
    tokens = [sum(len(cut(word)) * count for word, count in splittable.items()) for cut in both]
    shown = " ".join(tokenizer.join_pieces(*pair) for pair in merges[:_SHOWN])
    return (
        f"{options.output}: {plural(len(merges), 'new piece')} from id {tokenizer.vocabulary.size:,} on: {shown}; "
        f"tokens a word {tokens[0] / words:.3f} before, {tokens[1] / words:.3f} now"
    )


def learn_merges(
    tokenizer: Any, words: Counter[str], cuts: Mapping[str, Sequence[str]], options: ExtendOptions
) -> list[tuple[str, str]]:
    """Return the merges of neighboring pieces that make new ones, learned by the `tokenizers` library.

    It gets each piece as a letter, of the planes above the first.
    """
    pieces = sorted({piece for word in words for piece in cuts[word]})
    letters = {piece: chr(0x10000 + number) for number, piece in enumerate(pieces)}
    model = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=len(pieces) + options.pieces, min_frequency=options.min_frequency, show_progress=False
    )
    model.train_from_iterator(("".join(map(letters.__getitem__, cuts[word])) for word in words.elements()), trainer)
    made: dict[str, tuple[str, str]] = {}
    for pair in json.loads(model.to_str())["model"]["merges"]:
        left, right = (
            reduce(tokenizer.join_pieces, (pieces[ord(letter) - 0x10000] for letter in side)) for side in pair
        )
        made.setdefault(tokenizer.join_pieces(left, right), (left, right))
    known = {tokenizer.piece(token) for token in range(tokenizer.vocabulary.size)}
    return [pair for piece, pair in made.items() if piece not in known]


def main(arguments: Sequence[str]) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("model", type=some_path, metavar="MODEL", help="a run, an imported model, or a tokenizer")
    add_settings(parser, ExtendOptions)

    def action(options: argparse.Namespace) -> None:
        chosen = settings_of(ExtendOptions, options.overrides)
        sys.stdout.write(f"{extend_tokenizer(options.model, chosen)}\n")

    return run_tool(parser, arguments, action)
