"""Corrupt one text with one objective, to try it without a corpus."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from rich.cells import cell_len

from clozeline.columns import Role
from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder
from clozeline.pipeline.corrupt.objectives import Objective, Skip, build_objective
from clozeline.pipeline.corrupt.preview.view import (
    ConsoleView,
    TokenRenderer,
    fragment_as_labels,
    has_values,
    prefix_length,
    row_parts,
)
from clozeline.pipeline.corrupt.preview.words import (
    PreviewText,
    TextCodec,
    TokenizerCodec,
    WordCodec,
    sample_rows_of,
)
from clozeline.pipeline.group.groupings import build_grouping
from clozeline.pipeline.registries import SENTENCES
from clozeline.pipeline.rows import Example, Sample
from clozeline.pipeline.tokenize.published.folders import own_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.take.stage import find_missing_roles
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE, add_token_counts
from clozeline.terminal import pad_text

OTHERS: Final = ("Apples grow on trees. They are ripe in the autumn.",)
"""Documents from which sentence pairs take a partner that is not the next sentence."""
_VARIANTS: Final = 1 << 16
_NO_LOSS: Final = "__"
_WORD: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, repr=False)
class CorruptedText:
    """A text before and after, by the names of the objective's features; `print` and notebooks show both."""

    objective: Objective
    codec: TextCodec
    sample: Sample
    example: Example

    def __str__(self) -> str:
        """Return the texts, the input with its labels below, and the other features."""
        lines = [*self._text_lines(), *self._aligned_lines()]
        shown = {"input_ids", "label_positions", "label_ids"}
        if has_values(self.example, "target_start"):
            shown.add("target_ids")  # as labels
        for feature in self.objective.features:
            if feature.name not in shown:
                values = self.example[feature.name].tolist()
                text = " ".join(
                    self.codec.words(values) if feature.dtype == "ids" else map(str, values)
                )
                lines.append((feature.name, text if values or feature.dtype == "ids" else "(none)"))
        width = max(cell_len(title) for title, _ in lines) + 2
        return "\n".join((pad_text(title, width) + text).rstrip() for title, text in lines)

    def _text_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the texts of the sample, with a stroke in front of each sentence but the first."""
        starts = set(self.sample["sentence_starts"][1:].tolist())
        for name, role in self._sample_roles.items():
            if role.use == "ids":
                words = enumerate(self.codec.words(self.sample[name].tolist()))
                marked = (
                    f"| {word}" if name == "ids" and position in starts else word
                    for position, word in words
                )
                yield "text" if name == "ids" else name.removesuffix("_ids"), " ".join(marked)

    def _aligned_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the input, and the label below each word that has one; `__` marks a position without loss."""
        title, labels = self.labels()
        inputs = self.codec.words(self.example["input_ids"].tolist())
        pairs = [(word, labels.get(position, _NO_LOSS)) for position, word in enumerate(inputs)]
        if not labels:
            yield "input", " ".join(inputs)
            return
        widths = [max(map(cell_len, pair)) for pair in pairs]
        for name, cells in zip(("input", title), zip(*pairs, strict=True), strict=True):
            yield name, " ".join(map(pad_text, cells, widths))

    def labels(self) -> tuple[str, dict[int, str]]:
        """Return what the labels of the input are, and each by the position that predicts it.

        There are none where a loss scores the tokens of a second sequence, or compares two.
        """
        row = fragment_as_labels(self.example)
        columns = row.columns
        words = self.codec.words
        if {"target_ids", "input_ids_b"} & columns.keys():
            return "", {}
        if "label_positions" in columns:
            title = "target" if self.objective.architecture == "encoder_decoder" else "labels"
            labels = words(row["label_ids"].tolist())
            return title, dict(zip(row["label_positions"].tolist(), labels, strict=True))
        if "prediction_order" in columns:
            order = row["prediction_order"].tolist()
            return "predicted as number", {
                position: str(rank) for rank, position in enumerate(order, 1)
            }
        first = max(1, prefix_length(row))
        return "labels", dict(enumerate(words(row["input_ids"][first:].tolist()), first - 1))

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name} [{len(values)}]" for name, values in self.example.columns.items()
        )
        return f"CorruptedText({self.objective.label}: {sizes})"

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    def view(self) -> ConsoleView:
        """Return what a terminal, a notebook or a page shows: the texts and the example."""
        objective = self.objective
        pieces = TokenRenderer(self.codec.decoder)
        title = f"{objective.label} · {objective.architecture} · {', '.join(objective.heads)}"
        roles = {feature.name: feature.role for feature in objective.features}
        sample = row_parts(pieces, self.sample, self._sample_roles)
        return ConsoleView(title, (*sample, *row_parts(pieces, self.example, roles)))

    @property
    def _sample_roles(self) -> dict[str, Role]:
        grouping = build_grouping(self.objective.grouping, self.objective.vocabulary)
        return {feature.name: feature.role for feature in grouping.columns}

    @property
    def restored(self) -> str:
        """The original with special tokens, restored from the example alone; ValueError if it cannot be inverted."""
        return " ".join(self.codec.words(self.objective.restore(self.example).tolist()))


def corrupt_text(
    objective: str | Mapping[str, object],
    text: str,
    *,
    target: str = "",
    others: Sequence[str] = OTHERS,
    tokenizer: Path | str | None = None,
    variant: int = 0,
    seed: int = 1,
) -> CorruptedText:
    """Corrupt one text.

    Args:
        objective: name, or name and options as in a recipe: `{"name": "masked_lm", "max_length":
            128}`.
        text: one document; the splitter `regex` finds its sentences. Of several rows, the first is
            corrupted.
        target: its other side, such as a translation, for objectives over pairs.
        others: documents from which an objective over sentence pairs takes the partner.
        tokenizer: folder or file of a tokenizer, trained here or published, `hf://org/name`, or a
            pipeline's output; special tokens that the objective needs and a published one lacks are
            added. Default: words and punctuation of these texts are the tokens.
        variant: which corruption of the text, 0 to 65,535.
        seed: of the draws.

    Raises:
        TypeError: a text is no string.
        ConfigurationError: no such objective, wrong options, or a text that this objective cannot
            corrupt.

    Example:
        `corrupt_text("mass", "The kitten is chasing the ball.").example["target_ids"]`: the ids of
        the masked fragment.
    """
    if isinstance(others, str) or not all(
        isinstance(each, str) for each in (text, target, *others)
    ):
        raise TypeError(
            "corrupt_text: expected text and target as strings, others as a list: corrupt texts "
            "one by one"
        )
    if not text.strip():
        raise ConfigurationError("corrupt_text: expected a text, got nothing")
    if not 0 <= variant < _VARIANTS:
        raise ConfigurationError(
            f"corrupt_text: expected a variant from 0 to {_VARIANTS - 1:,}, got {variant}"
        )
    texts = [_text(text, target), *(_text(other, "") for other in others)]
    codec: TextCodec
    if tokenizer is None:
        # words and punctuation, separated by spaces
        texts = [
            PreviewText(
                tuple(" ".join(_WORD.findall(part)) for part in document.sentences),
                " ".join(_WORD.findall(document.target)),
            )
            for document in texts
        ]
        codec = WordCodec(
            part for document in texts for part in (*document.sentences, document.target)
        )
    else:
        codec = TokenizerCodec(_load(fetch_folder(tokenizer, weights=False), objective))
    return corrupt_first_row(
        build_objective(objective, codec.vocabulary), codec, texts, variant, seed
    )


def _load(path: Path, objective: str | Mapping[str, object]) -> Tokenizer:
    """Load a tokenizer folder, or import a published one with the special tokens that the objective needs."""
    if (own := own_tokenizer(path)) is not None:
        tokenizer = load_tokenizer(own.folder)
        tokenizer.vocabulary = add_token_counts(tokenizer.vocabulary, own.folder / VOCABULARY_FILE)
        return tokenizer
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = import_tokenizer(path, Path(temporary))
        missing = tuple(
            find_missing_roles([partial(build_objective, objective)], tokenizer.vocabulary)
        )
        return import_tokenizer(path, Path(temporary), add=missing) if missing else tokenizer


def corrupt_first_row(
    objective: Objective,
    codec: TextCodec,
    texts: Sequence[PreviewText],
    variant: int,
    seed: int = 1,
) -> CorruptedText:
    """Corrupt the first row of the first text; the others are partners for sentence pairs.

    A ConfigurationError says why the objective cannot corrupt this text.
    """
    if objective.grouping.name == "parallel" and not texts[0].target:
        raise ConfigurationError(
            f"'{objective.label}' corrupts pairs of texts: give the other side as target"
        )
    rows = sample_rows_of(
        objective, codec, texts if objective.grouping.name == "sentence_pair" else texts[:1]
    )
    first = np.flatnonzero((rows.fixed["document_uid"] == texts[0].uid).all(axis=1))[:1]
    reason = "too_short"
    least = objective.minimum
    if len(first):
        row = rows.take(first)
        examples, skips = objective.corrupt(row, np.array([variant], np.uint16), seed)
        if not skips[0]:
            return CorruptedText(objective, codec, row.row(0), examples.row(0))
        reason = Skip(skips[0]).reason
    raise ConfigurationError(
        f"'{objective.label}' cannot corrupt this text ({reason}): it takes at least "
        f"{least.tokens} tokens and "
        f"{least.sentences} sentences, the text has {len(texts[0].sentences)} sentences"
    )


def _text(text: str, target: str) -> PreviewText:
    """Split a text into sentences; all but the first start with the space before them."""
    starts = SENTENCES.resolve("regex").build().starts(text, "en")
    sentences = [text[first:last].strip() for first, last in pairwise([*starts, len(text)])]
    return PreviewText(
        tuple(f"{' ' if number else ''}{sentence}" for number, sentence in enumerate(sentences)),
        target,
    )
