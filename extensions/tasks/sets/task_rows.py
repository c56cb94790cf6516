"""Build the rows of a task: special tokens around texts, examples of a file, and their order."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import IDS, STARTS, UNDO, Feature
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Rejected,
    TaskItem,
    TaskMetadata,
    TaskReader,
)
from clozeline.pipeline.execution.unit_record import Counts, add_counts
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged, RowBatch, ShardRow
from clozeline.pipeline.set_kinds import Problem
from clozeline.pipeline.shards import Manifest, SetWriter
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field
from clozeline.pipeline.tokenize.published.exporting import Blanks
from clozeline.pipeline.tokenize.tokenizers import Encoding, Tokenizer
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import hash64, mix

Architecture: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]
Item = TypeVar("Item", bound=TaskItem)

INPUT_IDS: Final = Feature("input_ids", "ids", IDS, "framed text, or pair of texts")
SEGMENT_STARTS: Final = Feature(
    "segment_starts", "uint16", STARTS, "starts of the texts' segments, first 0"
)
RECORD: Final = Feature(
    "record", "uint8", UNDO, "what scores are computed from: JSON in UTF-8, which no model reads"
)
_ROWS_PER_BATCH: Final = 1024
"""Number of rows that are encoded at a time."""


class SplitCounts(TypedDict, total=False):
    """Rows of a split and the examples built from them."""

    rows_in: int
    """lines of the split that hold a row or are damaged"""
    examples: int
    windows: int
    """further windows of rows that are longer than an example"""
    refused: dict[str, int]
    """rejected rows by reason"""
    tokens: int
    truncated: int
    """examples truncated to `max_length`"""
    truncated_tokens: int
    labels: dict[str, int]
    """examples, or their words, by label"""
    notes: dict[str, int]
    """further counts of the rows of a head, by name"""
    layout: dict[str, int]
    """the layout detected in the file"""
    unknown_text: dict[str, dict[str, int]]
    """text with unknown tokens, together with `unknown_reasons` and `unknown_examples`; see
    `encode`"""
    unknown_reasons: dict[str, int]
    unknown_examples: dict[str, dict[str, int]]


class TaskCounts(Counts, total=False):
    """Counts of `tasks`, by split."""

    splits: dict[str, SplitCounts]
    files_left: dict[str, int]
    """input files that are not a split of the task, by source name"""


def record_bytes(record: Mapping[str, object]) -> NDArray[np.uint8]:
    """Encode the column `record`."""
    return np.frombuffer(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(), np.uint8
    )


def record_of(rows: RowBatch, row: int) -> dict[str, Any]:
    """Decode the column `record` of a row."""
    record: dict[str, object] = json.loads(rows.columns["record"][row].tobytes())
    return record


def join_cells(cells: Sequence[Any], form: NormalForm) -> str | None:
    """Return the texts of cells in a stored form, joined by a space; None if one is not text."""
    if not all(isinstance(cell, str) or cell is None for cell in cells):
        return None
    return " ".join(text for cell in cells if (text := normalize_field(form, cell or "").strip()))


@dataclass(frozen=True, slots=True)
class FramedRow:
    """Ids of a row with special tokens, starts of its segments, and number of truncated tokens."""

    ids: NDArray[Any]
    segment_starts: tuple[int, ...]
    cut: int


@dataclass(frozen=True)
class SpecialTokens:
    """Template of a row: roles of the special tokens before, between and after the texts."""

    architecture: Architecture
    head: tuple[str, ...]
    between: tuple[str, ...]
    tail: tuple[str, ...]
    segments: bool
    """true if the second text of a pair is a second segment, which starts after `between`"""
    decoder_start: str | None = None
    """first special token of the decoder's input"""

    def length(self, texts: int) -> int:
        """Return the number of special tokens of a row with one or two texts."""
        return len(self.head) + (len(self.between) if texts > 1 else 0) + len(self.tail)

    @property
    def start(self) -> tuple[str, ...]:
        """Return `decoder_start`, if there is one."""
        return () if self.decoder_start is None else (self.decoder_start,)

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise ConfigurationError if the vocabulary lacks a special token of the template."""
        for roles in (self.head, self.between, self.tail, self.start):
            self.ids(roles, vocabulary)

    def without_pad(self, specials: Mapping[str, int]) -> "SpecialTokens":
        """Return the template without a final token that is also the pad, for decoders.

        Classes of transformers read the state at the last token that is not the pad, so they never
        read such a final token.
        """
        if self.architecture != "decoder" or "pad" not in specials:
            return self
        return replace(
            self, tail=tuple(role for role in self.tail if specials.get(role) != specials["pad"])
        )

    def row_form(self, vocabulary: Vocabulary, max_length: int) -> RowForm:
        """Return what rows of this template look like."""
        head, between, tail, start = (
            tuple(self.ids(roles, vocabulary).tolist())
            for roles in (self.head, self.between, self.tail, self.start)
        )
        return RowForm(
            is_fixed=True,
            decoder_start=start[0] if start else None,
            predict_from="previous" if self.architecture == "decoder" else "same",
            head=head,
            between=between,
            tail=tail,
            longest_input=max_length,
        )

    def row(
        self, texts: Sequence[NDArray[np.generic]], vocabulary: Vocabulary, max_length: int
    ) -> FramedRow:
        """Return the row of one text or a pair, truncated to `max_length` tokens."""
        kept = truncate_lengths([len(text) for text in texts], max_length - self.length(len(texts)))
        head, between, tail = (
            self.ids(roles, vocabulary) for roles in (self.head, self.between, self.tail)
        )

        parts = [head, texts[0][: kept[0]]]
        starts = [0]

        if len(texts) > 1:
            parts.append(between)
            starts.append(sum(map(len, parts)))
            parts.append(texts[1][: kept[1]])

        ids = np.concatenate([*parts, tail]).astype(vocabulary.id_dtype)
        return FramedRow(ids, tuple(starts), sum(map(len, texts)) - sum(kept))

    def ids(self, roles: Sequence[str], vocabulary: Vocabulary) -> NDArray[Any]:
        """Return the ids of special tokens; ConfigurationError if the vocabulary lacks one."""
        ids = [vocabulary.id_of(role, "the frame of task rows (tasks.frame)") for role in roles]
        return np.array(ids, vocabulary.id_dtype)


FRAMES: Final[dict[str, SpecialTokens]] = {
    "bert": SpecialTokens("encoder", ("cls",), ("sep",), ("sep",), segments=True),
    "roberta": SpecialTokens("encoder", ("cls",), ("sep", "sep"), ("sep",), segments=False),
    "t5": SpecialTokens(
        "encoder_decoder", (), ("eos",), ("eos",), segments=False, decoder_start="pad"
    ),
    "t5_encoder": SpecialTokens("encoder", (), ("eos",), ("eos",), segments=False),
    "bart": SpecialTokens(
        "encoder_decoder", ("bos",), ("eos", "eos"), ("eos",), segments=False, decoder_start="eos"
    ),
    "gpt": SpecialTokens("decoder", (), ("eos",), ("eos",), segments=False),
    "gpt1": SpecialTokens("decoder", ("bos",), ("sep",), ("cls",), segments=False),
    "llama": SpecialTokens("decoder", ("bos",), ("eos",), ("eos",), segments=False),
}
"""bert: `[CLS] a [SEP] b [SEP]` with two segments (arXiv 1810.04805); roberta: `<s> a </s></s> b
</s>` (1907.11692); t5: `a </s> b </s>`, the pad starts the decoder (1910.10683), and t5_encoder the
same for its encoder alone; bart: the row of RoBERTa, `</s>` starts the decoder (1910.13461); gpt:
`a </s> b </s>`; gpt1: `<s> a [SEP] b [CLS]`, start, delimiter and extract token (Radford et al.
2018 §3.3); llama: `<s> a </s> b </s>`."""


def truncate_lengths(lengths: Sequence[int], limit: int) -> list[int]:
    """Return how many tokens of each text fit; tokens are removed from the end of the longer text.

    This is `longest_first` of the library `tokenizers`: tokens are removed one at a time, and the
    longer text, or the second of two equally long ones, keeps the odd token: [7, 4] with 6 gives
    [3, 3], with 7 [4, 3].
    """
    if len(lengths) == 1 or sum(lengths) <= limit:
        return [min(lengths[0], limit), *lengths[1:]]
    first, second = lengths
    shorter = min(first, second, limit // 2)
    return [limit - shorter, shorter] if first > second else [shorter, limit - shorter]


@dataclass(frozen=True)
class Form:
    """Special tokens and lengths of the rows of a set."""

    frame: SpecialTokens
    max_length: int
    """maximum tokens of a row, including special tokens"""
    stride: int | None = None
    """tokens between the starts of two windows of a text; None, or more than half of their length:
    half of it"""

    @staticmethod
    def of(manifest: Manifest) -> "Form":
        """Return the form of the rows of a set."""
        assert manifest.objective is not None, "a set of examples"

        options = manifest.objective.entry()
        stride = manifest.config.get("stride")
        return Form(FRAMES[options["frame"]], options["max_length"], stride)

    def step(self, window: int) -> int:
        """Return the tokens between the starts of two windows of `window` tokens.

        At most half, so that every span of up to half a window lies completely inside some window.
        """
        half = max(1, window // 2)
        return min(half, self.stride or half)


@dataclass(frozen=True, slots=True)
class BuiltExample:
    """One example."""

    columns: Mapping[str, Any]
    offset: int = 0
    """index of the first word or token in the row, if the row became several examples"""
    cut: int = 0
    """truncated tokens"""
    input_cut: int | None = None
    """truncated tokens of the input (not of the answer), each counted in one example of its row;
    None: all of `cut`"""
    labels: Mapping[str, int] = field(default_factory=dict)
    """occurrences of each label"""
    notes: Mapping[str, int] = field(default_factory=dict)
    """further counts by name"""


class TaskRows(ABC, Generic[Item]):
    """Builds and counts the rows of one file, and collects the rows that the reader rejected.

    Uids depend on corpus, source, row index and texts.
    """

    for_head: ClassVar[str]
    """head that reads the rows"""
    architectures: ClassVar[tuple[Architecture, ...]] = ("encoder", "decoder", "encoder_decoder")
    """architectures of the models that read the rows"""
    has_both_orders: ClassVar[bool] = False
    """true if an example may hold a pair in both orders"""
    per_token: ClassVar[int] = 1
    """values per token, summed over all columns; determines the number of rows in a block"""
    blanks: ClassVar[Blanks] = "kept"
    """blanks of the texts in the rows"""
    switches_words: ClassVar[bool] = False
    """true if words of training rows may be translated: no answer is a text or a place in one"""
    generated: ClassVar[bool] = False
    """true if a decoder learns to generate the end of the rows"""

    def __init__(
        self, metadata: TaskMetadata, form: Form, tokenizer: Tokenizer, corpus: str, source: str
    ) -> None:
        frame = (
            form.frame if self.generated else form.frame.without_pad(tokenizer.vocabulary.specials)
        )
        self.metadata = metadata
        self.form = replace(form, frame=frame)
        self.tokenizer = tokenizer
        self.corpus = corpus
        self.source = source
        self.rejected: list[Rejected] = []
        self.unbuilt: dict[int, str] = {}
        """reasons why items have no example, by index of the item"""

        self.truncated_inputs: dict[int, int] = {}
        """number of truncated input tokens, by index of the item, for items with some"""
        self.counts = SplitCounts(
            rows_in=0,
            examples=0,
            windows=0,
            refused={},
            tokens=0,
            truncated=0,
            truncated_tokens=0,
            labels={},
            notes={},
        )

    @classmethod
    def for_architecture(cls, architecture: Architecture) -> "type[TaskRows[Any]] | None":
        """Return the class that builds rows for an architecture; None if there is none."""
        return cls if architecture in cls.architectures else None

    @classmethod
    def writer(
        cls, metadata: TaskMetadata, split: str, form: Form, vocabulary: Vocabulary
    ) -> SetWriter:
        """Return the writer of the set of one split."""
        length = form.max_length * cls.per_token * (1 + metadata.both_orders)
        path = f"{metadata.name}/{split}"
        return SetWriter.of_rows(
            path, 1, cls.features(metadata, form.frame), vocabulary, length, "auto", {"task": path}
        )

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        """Yield each row that breaks a rule of the task, and the problem.

        The roles of the columns have been checked.
        """
        yield from ()

    @classmethod
    def describe_answer(cls, metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
        """Return the label of a row with its meaning, by the name of its column."""
        return {}

    # -- rows without an answer

    @property
    def inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns that `predict` needs, and those that it may read besides.

        They are text, text_pair, words, question, context, choices, begin and source.
        """
        return (
            (("text", "text_pair"), ()) if self.metadata.texts > 1 else (("text",), ("text_pair",))
        )

    def official_readers(self) -> Sequence[TaskReader]:
        """Return readers of official layouts for rows of the head's tasks, the strictest first."""
        return ()

    def item(
        self, values: Mapping[str, Sequence[Any]], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        """Return the item of a row from its cells by column; it has an arbitrary answer."""
        joined = {name: join_cells(cells, reader.form) for name, cells in values.items()}
        if None in joined.values():
            return Rejected("fields", index)
        texts = {name: text for name, text in joined.items() if text}
        if len(texts) < len(joined):
            return Rejected("empty_text", index)
        return self.item_of(texts, reader, index)

    def item_of(self, texts: Mapping[str, str], reader: TaskReader, index: int) -> TaskItem:
        """Return the item of the texts of a row, by column."""
        label = 0 if self.metadata.labels and not self.metadata.multi_label else None
        return LabeledText(tuple(texts.values()), label, 0.0, index)

    # -- examples

    @classmethod
    @abstractmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        """Return the list columns in order."""

    @abstractmethod
    def texts(self, item: Item) -> Sequence[str]:
        """Return the texts of a row to encode."""

    @abstractmethod
    def build(self, item: Item, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the examples of a row from its encoded texts, or the reason to reject it."""

    def frame_texts(self, *texts: NDArray[np.generic]) -> FramedRow:
        """Return the ids of one text or a pair with special tokens, truncated to `max_length`."""
        return self.form.frame.row(texts, self.tokenizer.vocabulary, self.form.max_length)

    def rows(
        self,
        items: Iterable[Item | Rejected],
        observe: Callable[[str, Encoding], None] | None = None,
    ) -> RowBatch:
        """Return all rows, shuffled by a hash of their uids so that no block holds a single class.

        `observe` is called with each encoded text and its tokens.
        """
        pairs = list(self._build_all(items, observe))
        rows = self._columns([item for item, _ in pairs], [example for _, example in pairs])
        return rows.take(np.argsort(mix(rows.fixed["uid"]), kind="stable"))

    def _build_all(
        self, items: Iterable[Item | Rejected], observe: Callable[[str, Encoding], None] | None
    ) -> Iterator[tuple[Item, BuiltExample]]:
        remaining = iter(items)
        while batch := list(islice(remaining, _ROWS_PER_BATCH)):
            add_counts(self.counts, {"rows_in": len(batch)})
            # encode each distinct text of the batch once
            texts_of_items = [self.texts(item) for item in batch if not isinstance(item, Rejected)]
            texts = list(dict.fromkeys(chain.from_iterable(texts_of_items)))
            encodings = dict(zip(texts, self.tokenizer.encode(texts), strict=True))
            if observe is not None:
                for text, encoding in encodings.items():
                    observe(text, encoding)

            for item in batch:
                if isinstance(item, Rejected):
                    self.rejected.append(item)
                    add_counts(self.counts, {"refused": {item.reason: 1}})
                    continue

                examples = self.build(item, [encodings[text] for text in self.texts(item)])
                if isinstance(examples, str):
                    self.unbuilt[item.index] = examples
                    add_counts(self.counts, {"refused": {examples: 1}})
                    continue

                lost = sum(
                    each.cut if each.input_cut is None else each.input_cut for each in examples
                )
                if lost:
                    self.truncated_inputs[item.index] = lost
                for example in examples:
                    counts: dict[str, object] = {
                        "examples": 1,
                        "tokens": len(example.columns["input_ids"]),
                    }
                    counts |= {"labels": dict(example.labels), "notes": dict(example.notes)}
                    if example.cut:
                        counts |= {"truncated": 1, "truncated_tokens": example.cut}
                    add_counts(self.counts, counts)
                    yield item, example

                add_counts(self.counts, {"windows": len(examples) - 1})

    def _columns(self, items: Sequence[Item], rows: Sequence[BuiltExample]) -> RowBatch:
        # uids of the row's document, and of the example by the texts of the row and the offset in
        # it
        documents = [document_uid(self.corpus, self.source, "row", item.index) for item in items]
        uids = [
            hash64("task", uid, *item.overlap_texts, *([row.offset] if row.offset else []))
            for uid, item, row in zip(documents, items, rows, strict=True)
        ]
        # fixed columns, [examples] each
        zeros = {"variant": np.uint16, "copy": np.uint8, "part": np.uint8, "language": np.uint8}
        fixed: dict[str, Any] = {
            "uid": np.array(uids, np.uint64),
            "document_uid": np.frombuffer(b"".join(documents), np.uint8).reshape(-1, 16),
            "document_offset": np.array([row.offset for row in rows], np.uint32),
            **{name: np.zeros(len(items), dtype) for name, dtype in zeros.items()},
        }

        columns = {}

        for feature in self.features(self.metadata, self.form.frame):
            dtype = self.tokenizer.vocabulary.id_dtype if feature.dtype == "ids" else feature.dtype
            columns[feature.name] = Ragged.from_lists(
                [row.columns[feature.name] for row in rows], dtype
            )

        return RowBatch(fixed, columns)
