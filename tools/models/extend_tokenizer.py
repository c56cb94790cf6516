"""Add the words of a domain to a tokenizer: `clozeline extend-tokenizer MODEL input=TEXTS output=DIR pieces=500`.

The tokenizer of MODEL (a run, an imported model, or one of our tokenizers) encodes the texts, and the most frequent
neighboring pieces are merged, as in training, into new pieces with the next ids. Existing ids, pieces and merges stay.
Sets made with `tokenizer.path=DIR` train a model with `model.init_from=MODEL`, whose embedding table grows by one row
per new id.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import cannot_write
from clozeline.pipeline.tokenize.published.local_tokenizers import own_tokenizer
from clozeline.pipeline.tokenize.published.source_files import SOURCE
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._bpe_merges import learn_merges
from clozeline.tools.command import IntermixedArguments, plural, run_tool, some_path
from clozeline.tools.runs.evaluation.local_texts import texts_of_files
from clozeline.tools.settings import add_settings, settings_of

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
    before = [tokenizer.piece(token) for token in range(tokenizer.vocabulary.size)]
    merges = learn_merges(
        splittable, cuts.__getitem__, options.pieces, join=tokenizer.join_pieces, banned=set(before),
        min_frequency=options.min_frequency,
    )  # fmt: skip
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
        f"{options.output}: {plural(len(merges), 'new piece')} from id {len(before):,} on: {shown}; tokens a word "
        f"{tokens[0] / words:.3f} before, {tokens[1] / words:.3f} now"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("model", type=some_path, metavar="MODEL", help="a run, an imported model, or a tokenizer")
    add_settings(parser, ExtendOptions)

    def action(options: argparse.Namespace) -> None:
        chosen = settings_of(ExtendOptions, options.overrides)
        sys.stdout.write(f"{extend_tokenizer(options.model, chosen)}\n")

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
