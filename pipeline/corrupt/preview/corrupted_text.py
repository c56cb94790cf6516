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
from rich.text import Text

from clozeline.columns import Role
from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder
from clozeline.pipeline.corrupt.objectives import Objective, Skip, build_objective
from clozeline.pipeline.corrupt.preview.view import (
    ConsoleView,
    Passage,
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
from clozeline.pipeline.tokenize.import_published.stage import find_missing_roles
from clozeline.pipeline.tokenize.published.folders import find_clozeline_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE, add_token_counts
from clozeline.terminal import pad_text

OTHERS: Final = ("Apples grow on trees. They are ripe in the autumn.",)
"""documents from which sentence pairs take a partner instead of the next sentence"""
_MOST_VARIANTS: Final = 1 << 16
_NO_LOSS: Final = "__"
_SAMPLE_TITLES: Final = {"ids": "text", "partner_ids": "other document", "target_ids": "other side"}
_EXAMPLE_TITLES: Final = {
    "input_ids": "input",
    "input_ids_b": "second input",
    "target_ids": "target",
}
_LEARNED_BY_HEAD: Final = {
    "masked_lm": "hidden tokens",
    "lm": "the next token",
    "bidirectional_lm": "the next and the previous token",
    "sentence": "sentence order",
    "token": "replaced tokens",
    "corrective": "corrections",
    "similarity": "similar texts",
    "span_boundary": "spans by their ends",
}
"""what a model learns with a head; other heads have their names"""
_WORD: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, repr=False)
class CorruptedText:
    """A text before and after corruption; `print` and notebooks show both.

    `sample` and `example` hold the columns by name.
    """

    objective: Objective
    codec: TextCodec
    sample: Sample
    example: Example

    def __str__(self) -> str:
        """Return the texts, the input with its labels below, and the other features."""
        # the labels are shown below the input, other features on lines of their name
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
        """Yield the texts of the sample, with `|` in front of each sentence after the first."""
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
        """Yield the input, and below it the labels; `__` marks a position without loss."""
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
        """Return a title for the labels, and each label by the position that predicts it.

        There are no labels if the loss scores a second sequence, or compares two sequences.
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
            ranks = {position: str(rank) for rank, position in enumerate(order, 1)}
            return "predicted as number", ranks

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
        """Return the view for a terminal, a notebook or a page: the texts and the example."""
        objective = self.objective
        pieces = TokenRenderer(self.codec.decoder)
        architecture = objective.architecture.replace("_", "-")
        article = "a" if architecture == "decoder" else "an"
        learned = ", ".join(_LEARNED_BY_HEAD.get(head, head) for head in objective.heads)
        title = f"{objective.label}: {article} {architecture} learns {learned}"
        roles = {feature.name: feature.role for feature in objective.features}
        sample = row_parts(pieces, self.sample, self._sample_roles, _SAMPLE_TITLES)
        example = row_parts(pieces, self.example, roles, _EXAMPLE_TITLES)
        return ConsoleView(title, (*sample, *example, *self._sentence_answer()))

    def _sentence_answer(self) -> Iterator[Passage]:
        """Yield the answer to next sentence prediction and sentence order prediction."""
        if has_values(self.example, "sentence_label"):
            answer = "no" if self.example["sentence_label"][0] else "yes"
            yield Passage("does B follow A?", Text(answer))

    @property
    def _sample_roles(self) -> dict[str, Role]:
        grouping = build_grouping(self.objective.grouping, self.objective.vocabulary)
        return {feature.name: feature.role for feature in grouping.columns}

    @property
    def restored(self) -> str:
        """The original with special tokens, restored from the example alone.

        Raises:
            ValueError: the example contradicts itself.
        """
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
        text: one document; the splitter `regex` finds its sentences. If it gives several rows, the
            first is corrupted.
        target: the other side of the text, such as a translation, for objectives over pairs.
        others: documents from which an objective over sentence pairs takes the partner.
        tokenizer: folder or file of a tokenizer, trained here or published, `hf://org/name`, or the
            output folder of a pipeline. If a published tokenizer lacks special tokens that the
            objective needs, they are added. Default: the tokens are the words and punctuation of
            these texts.
        variant: index of the corruption, 0 to 65,535; each one is another draw.
        seed: seed of all random choices.

    Raises:
        TypeError: a text is not a string.
        ConfigurationError: the objective does not exist, has wrong options, or cannot corrupt this
            text.

    Example:
        `corrupt_text("mass", "The kitten is chasing the ball.").example["target_ids"]`: the ids of
        the masked fragment.
    """
    if isinstance(others, str) or not all(
        isinstance(each, str) for each in (text, target, *others)
    ):
        raise TypeError(
            "corrupt_text: expected text and target as strings, and others as a list of strings; "
            "call it once for each text"
        )

    if not text.strip():
        raise ConfigurationError("corrupt_text: the text is empty; give one or more sentences")
    if not 0 <= variant < _MOST_VARIANTS:
        raise ConfigurationError(
            f"corrupt_text: expected a variant from 0 to {_MOST_VARIANTS - 1:,}, got {variant}"
        )

    texts = [_split_sentences(text, target)]
    texts += [_split_sentences(other, "") for other in others]
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
        codec = TokenizerCodec(_load_or_import(fetch_folder(tokenizer, weights=False), objective))

    return corrupt_first_row(
        build_objective(objective, codec.vocabulary), codec, texts, variant, seed
    )


def _load_or_import(path: Path, objective: str | Mapping[str, object]) -> Tokenizer:
    """Load a tokenizer folder, or import a published tokenizer.

    An imported one gets the special tokens that the objective needs.
    """
    if (ours := find_clozeline_tokenizer(path)) is not None:
        tokenizer = load_tokenizer(ours.folder)
        tokenizer.vocabulary = add_token_counts(tokenizer.vocabulary, ours.folder / VOCABULARY_FILE)
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
    """Corrupt the first row of the first text; the other texts are partners for sentence pairs.

    Raises:
        ConfigurationError: the objective cannot corrupt this text; the message says why.
    """
    if objective.grouping.name == "parallel" and not texts[0].target:
        raise ConfigurationError(
            f"'{objective.label}' corrupts pairs of texts: give the other side as `target`"
        )

    # the rows of the first text
    rows = sample_rows_of(
        objective, codec, texts if objective.grouping.name == "sentence_pair" else texts[:1]
    )
    first = np.flatnonzero((rows.fixed["document_uid"] == texts[0].uid).all(axis=1))[:1]
    reason = Skip.TOO_SHORT.reason

    if len(first):
        row = rows.take(first)
        examples, skips = objective.corrupt(row, np.array([variant], np.uint16), seed)
        if not skips[0]:
            return CorruptedText(objective, codec, row.row(0), examples.row(0))
        reason = Skip(skips[0]).reason

    # the error names the missing sentences or tokens
    least = objective.minimum
    remedy = f"write at least {least.tokens} tokens"
    if len(texts[0].sentences) < least.sentences:
        remedy = f"write at least {least.sentences} sentences; the text has one"
    raise ConfigurationError(f"'{objective.label}' cannot corrupt this text ({reason}): {remedy}")


def _split_sentences(text: str, target: str) -> PreviewText:
    """Split a text into sentences; each one after the first starts with the space before it."""
    starts = SENTENCES.resolve("regex").build().starts(text, "en")
    sentences = [text[first:last].strip() for first, last in pairwise([*starts, len(text)])]
    return PreviewText(
        tuple(f"{' ' if number else ''}{sentence}" for number, sentence in enumerate(sentences)),
        target,
    )
