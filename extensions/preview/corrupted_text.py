"""Corrupt one text with one objective, to try it without a corpus."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from clozeline.columns import UNDO, Feature, Role
from clozeline.configuration.config import Natural, check_arguments
from clozeline.errors import ConfigurationError, join_names
from clozeline.extensions.preview.chosen_tokens import (
    ChoiceEntry,
    chosen_words,
    read_choice,
)
from clozeline.hub import fetch_folder
from clozeline.pipeline.corrupt.objectives import Objective, Skip, build_objective
from clozeline.pipeline.corrupt.objectives._choice import ANSWER, Choice
from clozeline.pipeline.corrupt.preview.row_view import (
    fragment_as_labels,
    has_values,
    label_roles,
    prefix_length,
)
from clozeline.pipeline.corrupt.preview.words import (
    PreviewText,
    TextCodec,
    TokenizerCodec,
    WordCodec,
    sample_rows_of,
)
from clozeline.pipeline.group.groupings import build_grouping
from clozeline.pipeline.registries import OBJECTIVES, SENTENCES
from clozeline.pipeline.rows import Example, Sample, ShardRow
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.import_published.stage import find_missing_roles
from clozeline.pipeline.tokenize.published.folders import find_clozeline_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, find_vocabulary, load_tokenizer
from clozeline.report.html_page import Viewed
from clozeline.report.terminal_view import view_text
from clozeline.report.views import Block, Grid, Section, Span

OTHERS: Final = ("Apples grow on trees. They are ripe in the autumn.",)
"""documents from which sentence pairs take a partner instead of the next sentence"""
_COMPLETE_TEXT: Final = {
    "grouping": "document",
    "short_rate": 0.0,
    "complete_sentences": True,
}
"""options with which the complete text is one row, without separators"""
_MOST_VARIANTS: Final = 1 << 16
_NO_LOSS: Final = "__"
_SAMPLE_TITLES: Final = {"ids": "text", "partner_ids": "partner", "target_ids": "other side"}
_EXAMPLE_TITLES: Final = {
    "input_ids": "input",
    "input_ids_b": "second input",
    "target_ids": "target",
}
_SHOWN_BELOW_INPUT: Final = {
    "prediction_order",
    "prefix_length",
    "segment_starts",
    "sentence_label",
    "target_start",
}
FOLLOWS: Final = "does B follow A"
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
_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’]\w+)*|[^\w\s]")
"""numbers and contractions are single words: `0.81`, `don't`"""


@dataclass(frozen=True, slots=True, repr=False)
class CorruptedText(Viewed):
    """A text before and after corruption; `print` and notebooks show both.

    `sample` and `example` hold the columns by name.
    """

    objective: Objective
    codec: TextCodec
    sample: Sample
    example: Example

    def __str__(self) -> str:
        """Return the texts, the input with its labels below, and the other features."""
        return view_text(Section("", [self.lines()])).rstrip()

    def lines(self) -> Grid:
        """Return the printed lines: the texts, the input with its labels below, the targets."""
        shown = {"input_ids", "label_positions", "label_ids", *_SHOWN_BELOW_INPUT}
        if has_values(self.example, "target_start"):
            shown.add("target_ids")  # as labels
        others = [
            [(_EXAMPLE_TITLES.get(feature.name, feature.name), self._values(feature))]
            for feature in self.objective.features
            if feature.name not in shown and feature.role.use != UNDO.use
        ]
        answers = [[(f"{FOLLOWS}:", [Span(self.follows)])]] if self.follows else []
        return Grid([*self._text_blocks(), self._input_block(), *others, *answers])

    def _values(self, feature: Feature) -> list[Span]:
        values = self.example[feature.name].tolist()
        words = self.codec.words(values) if feature.dtype == "ids" else map(str, values)
        return [*map(Span, words)] or [Span("(none)")]

    def _text_blocks(self) -> Iterator[Block]:
        """Yield the texts of the sample, with `|` in front of each sentence after the first.

        Above them are the numbers by which a user chose tokens, unless they are those of a pair.
        """
        starts = set(self.sample["sentence_starts"][1:].tolist())
        is_numbered = self._is_numbered and not has_values(self.example, "segment_starts")
        for name, role in self._sample_roles.items():
            # "no" takes the partner
            if role.use == "ids" and (name != "partner_ids" or self.follows == "no"):
                words = enumerate(self.codec.words(self.sample[name].tolist()))
                marked = [
                    f"| {word}" if name == "ids" and position in starts else word
                    for position, word in words
                ]
                line = (_SAMPLE_TITLES.get(name, name), [*map(Span, marked)])
                numbers = [Span(str(number), "marker") for number in range(1, len(marked) + 1)]
                yield [("number", numbers), line] if is_numbered else [line]

    @property
    def _is_numbered(self) -> bool:
        chosen = self.objective.chosen
        return chosen is not None and chosen.names_tokens

    def _input_block(self) -> Block:
        """Return the input, and below it what is predicted and what the model is told.

        `__` marks a position without loss, `|` the end of a prefix.
        """
        example = fragment_as_labels(self.example)
        ids = example["input_ids"].tolist()
        words = self.codec.words(ids)
        prefix = prefix_length(example)
        special = self.codec.vocabulary.special
        roles = label_roles(self.codec.vocabulary, example)
        styles = [
            roles.get(
                position, "prefix" if position < prefix else "special" if special[token] else ""
            )
            for position, token in enumerate(ids)
        ]
        lines = [("input", [*map(Span, words, styles)])]
        segments = self._segments()
        if segments and self._is_numbered:
            # [CLS] and both [SEP] have no number
            second = list(segments.values()).index("B")
            counts = [*range(1, second - 1), "", *range(second - 1, len(ids) - 2)]
            numbers = [Span(str(number), "marker") for number in ["", *counts, ""]]
            lines.insert(0, ("number", numbers))

        # labels, answers and segments, each by position
        title, labels = self.labels()
        below = {title: labels, "token is": self._replaced(example), "segment": segments}
        for name, values in below.items():
            if values:
                cells = [
                    Span(values.get(position, _NO_LOSS), roles.get(position, ""))
                    for position in range(len(ids))
                ]
                lines.append((name, cells))
        if prefix:
            end = Span("|", "marker")
            lines = [(name, [*cells[:prefix], end, *cells[prefix:]]) for name, cells in lines]
        return lines

    def _replaced(self, example: ShardRow) -> dict[int, str]:
        """Return for each position whether its token is the original; `?`: a generator replaces it.

        Empty unless the model learns it.
        """
        if "token" not in self.objective.heads:
            return {}
        changed = {"masked": "?", "replaced": "replaced"}
        roles = label_roles(self.codec.vocabulary, example)
        return {
            position: changed.get(roles.get(position, ""), "original")
            for position in range(len(example["input_ids"]))
        }

    def _segments(self) -> dict[int, str]:
        """Return the segment of each position, A or B; empty without segments."""
        if not has_values(self.example, "segment_starts"):
            return {}
        second = int(self.example["segment_starts"][1])
        length = len(self.example["input_ids"])
        return {position: "B" if position >= second else "A" for position in range(length)}

    @property
    def follows(self) -> str:
        """The answer to the question whether the second segment follows the first; or empty."""
        if not has_values(self.example, "sentence_label"):
            return ""
        return "no" if self.example["sentence_label"][0] else "yes"

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
        columns = self.example.columns.items()
        sizes = ", ".join(f"{name} [{len(values)}]" for name, values in columns)
        return f"CorruptedText({self.objective.label}: {sizes})"

    def view(self) -> Section:
        """Return the printed lines below what is learned from them."""
        objective = self.objective
        architecture = objective.architecture.replace("_", "-")
        article = "a" if architecture == "decoder" else "an"
        learned = ", ".join(_LEARNED_BY_HEAD.get(head, head) for head in objective.heads)
        title = f"{objective.label}: {article} {architecture} learns {learned}"
        return Section(title, [self.lines()])

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
    choose: Sequence[ChoiceEntry] = (),
    part: str | None = None,
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
        choose: what to corrupt instead of a random choice, such as `[{4: "mask"}, {7: "hat"}]`,
            `["2-3", 6]` or, for orders, `[2, 1]`. Tokens and sentences count from 1.
        part: label of the part of a mixture that corrupts it; None: the seed draws one.
        variant: index of the corruption, 0 to 65,535; each one is another draw, of the same part.
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
    variant, seed = check_arguments(
        dict[str, Natural], "corrupt_text", variant=variant, seed=seed
    ).values()
    if variant >= _MOST_VARIANTS:
        raise ConfigurationError(
            f"corrupt_text: expected a variant from 0 to {_MOST_VARIANTS - 1:,}, got {variant}"
        )

    entry = _of_complete_text(objective)
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
            part
            for document in [*texts, PreviewText(tuple(chosen_words(choose)))]
            for part in (*document.sentences, document.target)
        )
    else:
        codec = TokenizerCodec(_load_or_import(fetch_folder(tokenizer, weights=False), entry))

    corruption = build_objective(entry, codec.vocabulary)
    if part is not None:
        parts = {one.label: one for one in corruption.parts}
        if part not in parts:
            known = join_names(parts) or "no parts"
            raise corruption.refuse_options(f"part: it has {known}, not '{part}'")
        corruption = parts[part]
    if choose:
        corruption.chosen = read_choice(choose, corruption, codec)
    if others and len(texts[0].sentences) == 1 and _takes_partner(corruption):
        return _corrupt_one_sentence(corruption, codec, texts, variant, seed)
    return corrupt_first_row(corruption, codec, texts, variant, seed)


def _of_complete_text(entry: str | Mapping[str, object]) -> dict[str, object]:
    """Return an objective that reads the text as one document, unless its options say otherwise."""
    named: dict[str, object] = {"name": entry} if isinstance(entry, str) else dict(entry)
    for key, value in _COMPLETE_TEXT.items():
        with suppress(ConfigurationError):
            OBJECTIVES.resolve(complete := {key: value, **named})
            named = complete
    return named


def _takes_partner(objective: Objective) -> bool:
    """Return whether it asks if a sentence follows, with partners from other documents."""
    grouping = build_grouping(objective.grouping, objective.vocabulary)
    has_partner = "partner_ids" in {column.name for column in grouping.columns}
    return has_partner and objective.choices is not None and ANSWER in objective.choices.roles


def _corrupt_one_sentence(
    objective: Objective, codec: TextCodec, texts: Sequence[PreviewText], variant: int, seed: int
) -> CorruptedText:
    """Corrupt the only sentence of a text with a sentence of another document.

    The window also needs a next sentence; with the answer "no" the pair does not show it.
    """
    assert objective.choices is not None
    chosen = objective.chosen
    if chosen is not None and chosen.follows:
        raise ConfigurationError("choose: the text has one sentence, so that none can follow it")
    spans = () if chosen is None else chosen.spans
    objective.chosen = Choice(spans, follows=False, choices=objective.choices)
    only = texts[0].sentences[0]
    window = PreviewText((only, " " + " ".join(texts[1].sentences)))
    found = corrupt_first_row(objective, codec, [window, *texts[1:]], variant, seed)
    ids, _ = codec.document([only])
    columns = {
        **found.sample.columns,
        "ids": found.sample["ids"][: len(ids)],
        "sentence_starts": found.sample["sentence_starts"][:1],
    }
    return replace(found, sample=ShardRow(found.sample.fixed, columns))


def _load_or_import(path: Path, objective: str | Mapping[str, object]) -> Tokenizer:
    """Load a tokenizer folder, or import a published tokenizer.

    An imported one gets the special tokens that the objective needs.
    """
    if (ours := find_clozeline_tokenizer(path)) is not None:
        tokenizer = load_tokenizer(ours.folder)
        # in the output of a pipeline, random ids are drawn as there
        encoded = ours.folder.absolute().parents[1] / "encode"
        if (encoded / "manifest.json").is_file():
            tokenizer.vocabulary = find_vocabulary(open_shards(encoded, check_files=False))
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
    second = objective.grouping.algorithm.second_text
    if second == "target" and not texts[0].target:
        raise ConfigurationError(
            f"'{objective.label}' corrupts pairs of texts: give the other side as `target`"
        )

    # the rows of the first text
    rows = sample_rows_of(objective, codec, texts if second == "partner" else texts[:1], seed)
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
