"""Corrupt one text with one objective, to try it without a corpus."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder
from clozeline.pipeline.corrupt.objectives import Objective, Skip, build_objective
from clozeline.pipeline.corrupt.preview.pieces import Pieces
from clozeline.pipeline.corrupt.preview.predictions import TEXTS, describe_predictions, lines_of
from clozeline.pipeline.corrupt.preview.row_parts import row_parts
from clozeline.pipeline.corrupt.preview.view import Sheet, View
from clozeline.pipeline.corrupt.preview.words import Text, TextCodec, TokenizerPieces, Words, sample_rows_of
from clozeline.pipeline.rows import Example, Sample
from clozeline.pipeline.tokenize.published.folders import own_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer, source_files
from clozeline.pipeline.tokenize.take.stage import find_missing_roles
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.registry import choose

_OTHERS: Final = ("Apples grow on trees. They are ripe in the autumn.",)
_VARIANTS: Final = 1 << 16
_WORD: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, repr=False)
class CorruptedText:
    """A text before and after, by the names of the objective's features; `print` and notebooks show both."""

    objective: Objective
    codec: TextCodec
    sample: Sample
    example: Example

    def __str__(self) -> str:
        return "\n".join(lines_of(self.objective, self.codec, self.sample, self.example))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} [{len(values)}]" for name, values in self.example.columns.items())
        return f"CorruptedText({self.objective.label}: {sizes})"

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    def view(self) -> View:
        """Return what a terminal, a notebook or a page shows: the texts, the example, and what a model learns."""
        objective, pieces = self.objective, Pieces(self.codec.decoder)
        signs = {int(start): "|" for start in self.sample["sentence_starts"][1:]}
        texts = [
            pieces.passage(title, self.sample[name], None, signs if name == "ids" else None)
            for name, title in TEXTS.items()
            if name in self.sample.columns
        ]
        learned = Sheet("what the model does with it", (), describe_predictions(self.example))
        title = f"{objective.label} · {objective.architecture} · {', '.join(objective.heads)}"
        return View(title, (*texts, *row_parts(pieces, self.example), learned))

    @property
    def restored(self) -> str:
        """The original with special tokens, restored from the example alone; ValueError if it cannot be inverted."""
        return " ".join(self.codec.words(self.objective.uncorrupt(self.example).tolist()))


def corrupt_text(
    objective: str | Mapping[str, Any],
    text: str,
    *,
    target: str = "",
    others: Sequence[str] = _OTHERS,
    tokenizer: Path | str | None = None,
    variant: int = 0,
    seed: int = 1,
) -> CorruptedText:
    """Corrupt one text.

    Args:
        objective: name, or name and options as in a recipe: `{"name": "masked_lm", "max_length": 128}`.
        text: one document; the splitter `regex` finds its sentences. Of several rows, the first is corrupted.
        target: its other side, such as a translation, for objectives over pairs.
        others: documents from which an objective over sentence pairs takes the partner.
        tokenizer: folder or file of a tokenizer, trained here or published, `hf://org/name`, or a pipeline's output;
            special tokens that the objective needs and a published one lacks are added. Default: words and punctuation
            of these texts are the tokens.
        variant: which corruption of the text, 0 to 65,535.
        seed: of the draws.

    Raises:
        TypeError: a text is no string.
        ConfigurationError: no such objective, wrong options, or a text that this objective cannot corrupt.

    Example:
        `corrupt_text("mass", "The kitten is chasing the ball.").example["target_ids"]`: the ids of the masked fragment.
    """
    for given in (text, target, *others):
        if not isinstance(given, str):
            raise TypeError(f"corrupt_text: expected a text, got {type(given).__name__}: corrupt texts one by one")
    if isinstance(others, str):
        raise TypeError("corrupt_text: expected a list of texts as others, got one text")
    if not text.strip():
        raise ConfigurationError("corrupt_text: expected a text, got nothing")
    if not 0 <= variant < _VARIANTS:
        raise ConfigurationError(f"corrupt_text: expected a variant from 0 to {_VARIANTS - 1:,}, got {variant}")
    texts = [_text(text, target), *(_text(other, "") for other in others)]
    codec: TextCodec
    if tokenizer is None:
        # words and punctuation, separated by spaces
        texts = [
            Text(tuple(" ".join(_WORD.findall(part)) for part in document.sentences),
                 " ".join(_WORD.findall(document.target)))
            for document in texts
        ]  # fmt: skip
        codec = Words(part for document in texts for part in (*document.sentences, document.target))
    else:
        codec = TokenizerPieces(_load(fetch_folder(tokenizer, weights=False), objective))
    return corrupt_first_row(build_objective(objective, codec.vocabulary), codec, texts, variant, seed)


def _load(path: Path, objective: str | Mapping[str, Any]) -> Tokenizer:
    """Load a tokenizer folder, or import a published one with the special tokens that the objective needs."""
    if not path.exists():
        raise ConfigurationError(f"tokenizer {path}: no such file or folder")
    if (own := own_tokenizer(path)) is not None:
        return load_tokenizer(own.files[0].parent)
    state = tuple((file.name, file.stat().st_mtime_ns) for file in source_files(path))
    tokenizer = _import_once(path, (), state)
    missing = tuple(find_missing_roles([partial(build_objective, objective)], tokenizer.vocabulary))
    return _import_once(path, missing, state) if missing else tokenizer


@lru_cache(maxsize=4)
def _import_once(path: Path, add: tuple[str, ...], _state: tuple[tuple[str, int], ...]) -> Tokenizer:
    with tempfile.TemporaryDirectory() as temporary:
        return import_tokenizer(path, Path(temporary), add=add)


def corrupt_first_row(
    objective: Objective, codec: TextCodec, texts: Sequence[Text], variant: int, seed: int = 1
) -> CorruptedText:
    """Corrupt the first row of the first text; the others are partners for sentence pairs.

    A ConfigurationError says why the objective cannot corrupt this text.
    """
    if objective.grouping.name == "parallel" and not texts[0].target:
        raise ConfigurationError(f"'{objective.label}' corrupts pairs of texts: give the other side as target")
    rows = sample_rows_of(objective, codec, texts if objective.grouping.name == "sentence_pair" else texts[:1])
    first = np.flatnonzero((rows.fixed["document_uid"] == texts[0].uid).all(axis=1))[:1]
    reason, least = "too_short", objective.minimum
    if len(first):
        row = rows.take(first)
        examples, skips = objective.corrupt(row, np.array([variant], np.uint16), seed)
        if not skips[0]:
            return CorruptedText(objective, codec, row.row(0), examples.row(0))
        reason = Skip(skips[0]).reason
    raise ConfigurationError(
        f"'{objective.label}' cannot corrupt this text ({reason}): it takes at least {least.tokens} tokens and "
        f"{least.sentences} sentences, the text has {len(texts[0].sentences)} sentences"
    )


def _text(text: str, target: str) -> Text:
    """Split a text into sentences; all but the first start with the space before them."""
    starts = choose("clozeline.pipeline.text.sentences", "regex").build().starts(text, "en")
    sentences = [text[first:last].strip() for first, last in pairwise([*starts, len(text)])]
    return Text(tuple(f"{' ' if number else ''}{sentence}" for number, sentence in enumerate(sentences)), target)
