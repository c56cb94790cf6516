"""Add the words of a domain to a tokenizer.

    clozeline extend-tokenizer mine/run input=law.txt output=law pieces=500

The tokenizer of MODEL (a run, an imported model, or one of our tokenizers) encodes the texts, and
the most frequent neighboring pieces are merged, as in training, into new pieces with the next ids.
Letters that a WordPiece lacks come first; a byte-level BPE has all of them as bytes. Existing ids,
pieces and merges stay. Sets made with `tokenizer.path=DIR` train a model with
`model.init_from=MODEL`, whose embedding table grows by one row per new id.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any

from pydantic import Field
from tokenizers import Tokenizer, models, trainers

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural, share_text
from clozeline.pipeline.tables import read_texts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.pipeline.tokenize.published.folders import SOURCE, find_clozeline_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import UnknownReason
from clozeline.pipeline.tokenize.unknown_text import UnknownShares, UnknownText
from clozeline.tools.command import OutputPath, UserPath, run_as_script, run_tool
from clozeline.tools.output_folder import new_folder

_SHOWN_PIECES = 12
"""Number of new pieces that the report shows."""


@config_class
class ExtendOptions:
    """Texts of the domain, and the pieces to learn from them."""

    model: Annotated[UserPath, Positional(0)]
    """a run, an imported model, or a tokenizer"""
    input: UserPath
    """file or folder of texts: the field `text` of tables and lines of JSON, a file of text as one
    text"""
    output: OutputPath
    """folder for the tokenizer; it is new"""
    normalize: NormalForm = "prose"
    """stored form of the texts, as `clean.normalize`; none reads them as they are"""
    pieces: Annotated[int, Field(ge=1, le=1 << 20)] = 500
    """new pieces at most, letters included"""
    min_frequency: Annotated[int, Field(ge=2)] = 20
    """times that a new piece must occur in the texts"""


def extend_tokenizer(options: ExtendOptions) -> str:
    """Write the extended tokenizer, and return a line about it."""
    model = options.model
    source = find_clozeline_tokenizer(model)
    if source is None:
        raise ConfigurationError(
            f"{model}: expected a run, an imported model, or one of our tokenizers"
        )

    tokenizer: Any = load_tokenizer(source.folder)

    if not hasattr(tokenizer, "extend"):
        raise ConfigurationError(
            f"{model}: tokenizer type {source.algorithm} takes no pieces, only WordPiece and "
            "byte-level BPE do"
        )

    with new_folder(options.output) as written:
        counts = Counter(tokenizer.words(read_texts(options.input, options.normalize)))
        letters = find_letters(tokenizer, counts, options)
        # the second writes over the first
        spelled = tokenizer.extend((), written, letters) if letters else tokenizer
        cuts = {word: spelled.split_word(word) for word in counts}
        is_splittable = Counter({word: count for word, count in counts.items() if cuts[word]})
        merges = learn_merges(spelled, is_splittable, cuts, options, options.pieces - len(letters))
        if not merges and not letters:
            raise ConfigurationError(
                f"{options.input}: no two pieces are neighbors {options.min_frequency} times"
            )

        larger = spelled.extend(merges, written)
        save_tokenizer(larger, source.algorithm, written)
        if (source.folder / SOURCE).is_dir():
            shutil.copytree(source.folder / SOURCE, written / SOURCE)

    new = [*letters, *(tokenizer.join_pieces(*pair) for pair in merges)]
    first = f"{plural(len(new), 'new piece')} from id {tokenizer.vocabulary.size:,} on"
    lines = [f"{options.output}: {first}: {' '.join(new[:_SHOWN_PIECES])}"]
    # tokens per word before and now, of the words that it could spell before
    words = {word: count for word, count in counts.items() if tokenizer.split_word(word)}
    if words:
        both = (tokenizer, larger)
        tokens = [
            sum(len(each.split_word(word)) * count for word, count in words.items())
            for each in both
        ]
        before, now = (number / sum(words.values()) for number in tokens)
        lines[0] += f"; tokens per word {before:.3f} before, {now:.3f} now"

    return "\n".join([*lines, *_describe_unknown(tokenizer, larger, options)])


def find_letters(tokenizer: Any, words: Counter[str], options: ExtendOptions) -> list[str]:
    """Return the letters that the tokenizer lacks and that are frequent enough.

    The most frequent comes first.
    """
    lacking: Counter[str] = Counter()
    for word, count in words.items():
        for piece in () if tokenizer.split_word(word) else tokenizer.lacking_letters(word):
            lacking[piece] += count
    ordered = sorted(lacking, key=lambda piece: (-lacking[piece], piece))
    return [piece for piece in ordered if lacking[piece] >= options.min_frequency][: options.pieces]


def _describe_unknown(before: Any, now: Any, options: ExtendOptions) -> Iterator[str]:
    """Yield what share of the texts' characters is unknown before and after, and why.

    Nothing if all were known.
    """
    shares = []

    for tokenizer in (before, now):
        unknown = UnknownText(tokenizer)
        for text in read_texts(options.input, options.normalize):
            unknown.add("", text, tokenizer.encode([text])[0])
        shares.append(UnknownShares.of(unknown.counts()))

    if not shares[0].share:
        return
    first, last = (share_text(each.share) for each in shares)
    yield f"  unknown characters {first} before, {last} now"
    yield from (f"  still unknown: {line}" for line in shares[1].explanation())
    if UnknownReason.LETTERS.value in shares[1].reasons:
        yield "  letters of fewer words than min_frequency, or beyond `pieces`, are not added"


def learn_merges(
    tokenizer: Any,
    words: Counter[str],
    cuts: Mapping[str, Sequence[str]],
    options: ExtendOptions,
    most: int,
) -> list[tuple[str, str]]:
    """Return at most `most` merges of neighboring pieces that make new ones.

    The `tokenizers` library learns them.

    It gets each piece as a letter, of the planes above the first.
    """
    pieces = sorted({piece for word in words for piece in cuts[word]})
    letters = {piece: chr(0x10000 + number) for number, piece in enumerate(pieces)}
    model = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=len(pieces) + most, min_frequency=options.min_frequency, show_progress=False
    )
    model.train_from_iterator(
        ("".join(map(letters.__getitem__, cuts[word])) for word in words.elements()), trainer
    )
    made: dict[str, tuple[str, str]] = {}

    for pair in json.loads(model.to_str())["model"]["merges"]:
        left, right = (
            reduce(tokenizer.join_pieces, (pieces[ord(letter) - 0x10000] for letter in side))
            for side in pair
        )
        made.setdefault(tokenizer.join_pieces(left, right), (left, right))

    known = {tokenizer.piece(token) for token in range(tokenizer.vocabulary.size)}
    return [pair for piece, pair in made.items() if piece not in known]


def _extend(options: ExtendOptions) -> None:
    sys.stdout.write(f"{extend_tokenizer(options)}\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExtendOptions, _extend)


if __name__ == "__main__":
    run_as_script(main)
