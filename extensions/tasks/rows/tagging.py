"""Build rows of sentences with one tag per word, in windows that split between words."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.columns import UNDO, Feature, Role
from clozeline.extensions.tasks.readers import (
    Rejected,
    TaggedWords,
    TaskItem,
    TaskMetadata,
    TaskReader,
    Unfit,
)
from clozeline.extensions.tasks.readers._labels import words_of
from clozeline.extensions.tasks.readers.conll import ConllReader
from clozeline.extensions.tasks.readers.conllu import ConlluReader
from clozeline.extensions.tasks.rows._windows import (
    NO_WORD,
    assign_to_windows,
    sliding_windows,
    word_bounds,
    word_numbers,
)
from clozeline.extensions.tasks.sets.task_rows import (
    INPUT_IDS,
    RECORD,
    BuiltExample,
    SpecialTokens,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.rows import Ragged, RowBatch, ShardRow
from clozeline.pipeline.set_kinds import Problem
from clozeline.pipeline.tables import normalize_row
from clozeline.pipeline.tokenize.token_spans import token_spans
from clozeline.pipeline.tokenize.tokenizers import Encoding

NO_ENTITY: Final = "O"
"""Class of a word, or a blank token, outside entities."""
_TAG_POSITIONS: Final = Feature(
    "tag_positions",
    "uint16",
    Role("position", "input_ids", head="tagging"),
    "tokens with a tag: of words, and blanks",
)
_TAGS: Final = Feature(
    "tags",
    "uint16",
    Role("label", "tag_positions", head="tagging", below="classes"),
    "numbers of their classes",
)
_WORD_NUMBERS: Final = Feature(
    "word_numbers", "uint16", UNDO, f"each token's word in its sentence, {NO_WORD}: none"
)


class TaggedRows(TaskRows[TaggedWords]):
    """Rows for the head tagging: each word is labeled at its first token (arXiv 1810.04805 §5.3).

    A token that is only a blank belongs to no word, so the first visible token is labeled. But
    other programs read a tag at the blank too, so it learns a tag under which the next word, if it
    continues an entity, stays in this entity. A decoder has read the entire word only at its last
    token, so it is labeled there.

    A sentence is encoded as its words joined by single spaces. If it exceeds `max_length`, it is
    split into windows between words. Each word is labeled once, in the window where it has the most
    context. `record` holds the words and tags of the window, including words without tokens (which
    are counted), and `first`, the index of its first word. Example (a word of two tokens, then one
    of one):
        input_ids [CLS] un ##able . [SEP], word_numbers none 0 0 1 none, tag_positions 1 3
    """

    for_head = "tagging"
    blanks = "single"
    switches_words = True
    per_token = 6

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (INPUT_IDS, _TAG_POSITIONS, _TAGS, _WORD_NUMBERS, RECORD)

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        sizes = columns["input_ids"].lengths
        for row in np.flatnonzero(columns["word_numbers"].lengths != sizes).tolist():
            yield row, f"expected a word number for each of {sizes[row]} tokens"

    @classmethod
    def describe_answer(cls, metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
        record = json.loads(row["record"].tobytes())
        tagged = zip(record["words"], record["tags"], strict=True)
        return {"tags": " ".join(f"{word}/{metadata.labels[tag]}" for word, tag in tagged)}

    @property
    def inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("words",), ()

    def official_readers(self) -> Sequence[TaskReader]:
        tags = ConllReader.Options(entities=[], tags=[*self.metadata.labels])
        limits = InputLimits()
        return ConlluReader(ConlluReader.Options(), limits), ConllReader(tags, limits)

    def item(
        self, values: Mapping[str, Sequence[Any]], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        (value,) = values["words"]
        try:
            words = words_of(normalize_row(reader.form, value))
        except Unfit as why:
            return Rejected(why.reason, index)
        return TaggedWords(words, (0,) * len(words), index)

    def texts(self, item: TaggedWords) -> Sequence[str]:
        return (item.text,)

    def build(
        self, item: TaggedWords, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return the windows of a sentence; `no_tokens` if no word has a token."""
        (encoding,) = encodings
        frame = self.form.frame
        metadata = self.metadata
        # word index of each token [T], and the first token of each word [W + 1]
        numbers = word_numbers(
            token_spans(item.text, encoding.starts, encoding.ends), word_bounds(item.words)
        )
        filled = np.maximum.accumulate(np.where(numbers == NO_WORD, 0, numbers))
        firsts = np.searchsorted(filled, np.arange(len(item.words) + 1)).tolist()
        if not firsts[-1] or (numbers == NO_WORD).all():
            return "no_tokens"

        # windows over words, and the window that labels each word [W]
        sizes = np.diff(firsts)
        limit = self.form.max_length - frame.length(1)
        windows = sliding_windows(sizes, limit, self.form.step(limit))
        window_of = assign_to_windows(windows, sizes)

        rows = []

        for number, (start, end) in enumerate(windows):
            labeled = np.flatnonzero(window_of == number)
            if not len(labeled):
                continue
            ids = encoding.ids[firsts[start] : firsts[end]]
            framed = self.frame_texts(ids)
            # words with a token in this window, and the position of their first or last token
            kept = numbers[firsts[start] : firsts[end]][: len(ids) - framed.cut]
            words, positions = np.unique(kept, return_index=True)
            if frame.architecture == "decoder":
                positions = len(kept) - 1 - np.unique(kept[::-1], return_index=True)[1]

            # tags by position
            is_labeled = np.isin(words, labeled)
            tagged = words[is_labeled]
            tags_of_words = (item.tags[word] for word in tagged)
            tags = dict(zip(positions[is_labeled].tolist(), tags_of_words, strict=True))
            if frame.architecture != "decoder":
                tags |= self._tags_of_blanks(item, kept, labeled)
            tag_positions = np.array(sorted(tags), np.int64)

            columns = {
                "input_ids": framed.ids,
                "tag_positions": tag_positions + len(frame.head),
                "tags": [tags[position] for position in tag_positions.tolist()],
                "word_numbers": [*[NO_WORD] * len(frame.head), *kept, *[NO_WORD] * len(frame.tail)],
                "record": record_bytes(
                    {
                        "first": int(labeled[0]),
                        "words": [item.words[word] for word in labeled],
                        "tags": [item.tags[word] for word in labeled],
                    }
                ),
            }

            labels = Counter(metadata.labels[item.tags[word]] for word in tagged)
            without = len(labeled) - len(tagged)
            notes = {"words_without_tokens": without} if without else {}
            first = int(labeled[0])
            rows.append(BuiltExample(columns, first, framed.cut, labels=labels, notes=notes))

        return rows

    def _tags_of_blanks(self, item: TaggedWords, numbers: Int64, labeled: Int64) -> dict[int, int]:
        """Return the tags of blank tokens by position, before words that the window labels.

        Args:
            item: the sentence.
            numbers: word index of each token of the window, [tokens]; `NO_WORD` for blank tokens.
            labeled: words that the window labels.
        """
        filled = np.flatnonzero(numbers != NO_WORD)
        blanks = np.flatnonzero(numbers == NO_WORD)
        blanks = blanks[blanks < filled[-1]] if len(filled) else blanks[:0]
        order = np.searchsorted(filled, blanks)
        tags: dict[int, int] = {}

        for position, number in zip(blanks.tolist(), order.tolist(), strict=True):
            word = int(numbers[filled[number]])
            is_inside = number > 0 and numbers[filled[number - 1]] == word
            label = self._label_before(self.metadata.labels[item.tags[word]], is_inside=is_inside)
            if label in self.metadata.labels and word in labeled:
                tags[position] = self.metadata.labels.index(label)

        return tags

    def _label_before(self, label: str, *, is_inside: bool) -> str:
        """Return the class of a blank token inside a word (`is_inside`) or before it."""
        if "entity_f1" not in self.metadata.metrics or not label.startswith("B-"):
            return label
        return f"I-{label[2:]}" if is_inside else NO_ENTITY


def words_with_tags(rows: RowBatch, row: int) -> tuple[Int64, Int64]:
    """Return the indices of a row's tags that belong to words, and these words.

    Blanks have tags too.
    """
    positions = rows.columns["tag_positions"][row].astype(np.int64)
    words = rows.columns["word_numbers"][row][positions].astype(np.int64)
    indices = np.flatnonzero(words != NO_WORD)
    return indices, words[indices]
