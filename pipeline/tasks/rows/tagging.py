"""Rows of sentences whose words have tags, in windows between words."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.columns import UNDO, Feature, Role
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import TaggedWords, TaskMetadata
from clozeline.pipeline.tasks.rows._windows import (
    NO_WORD,
    assign_to_windows,
    sliding_windows,
    token_spans,
    word_bounds,
    word_numbers,
)
from clozeline.pipeline.tasks.task_rows import (
    INPUT_IDS,
    RECORD,
    BuiltExample,
    SpecialTokens,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.tokenize.tokenizers import Encoding

NO_ENTITY: Final = "O"
"""Class of a word, or a blank, that is no part of an entity."""
_TAG_AT: Final = Feature(
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
_WORDS: Final = Feature(
    "word_numbers", "uint16", UNDO, f"each token's word in its sentence, {NO_WORD}: none"
)


class TaggedRows(TaskRows[TaggedWords]):
    """Rows for the head tagging (BERT, arXiv 1810.04805 §5.3): each word is labeled at its first token.

    The first one with a glyph: a token that is a blank alone belongs to no word, but other programs
    read a tag there. So it learns the one under which the next word, if it continues an entity,
    stays with it. A decoder has read the entire word at its last token only, so there it is labeled
    at that one.

    A sentence is encoded as its words joined by single spaces. If it exceeds `max_length`, it
    becomes windows that start and end between words; each word is labeled once, in the window where
    it has the most context. `record` holds the words and tags that belong to the window, including
    words without tokens (which are counted), and `first`, the index of the first of them.

    Example (a word of two tokens, then one of one):
        input_ids [CLS] un ##able . [SEP], word_numbers none 0 0 1 none, tag_positions 1 3
    """

    for_head: ClassVar = "tagging"
    per_token: ClassVar = 6

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (INPUT_IDS, _TAG_AT, _TAGS, _WORDS, RECORD)

    def texts(self, item: TaggedWords) -> Sequence[str]:
        return (item.text,)

    def build(
        self, item: TaggedWords, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return the windows of a sentence; `no_tokens` if none of its words has a token."""
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
        room = self.form.max_length - frame.length(1)
        windows = sliding_windows(sizes, room, self.form.step(room))
        window_of = assign_to_windows(windows, sizes)
        rows = []
        for number, (start, end) in enumerate(windows):
            own = np.flatnonzero(window_of == number)
            if not len(own):
                continue
            ids = encoding.ids[firsts[start] : firsts[end]]
            framed = self.framed(ids)
            # words with a token in this window, and the position of the first or last one
            kept = numbers[firsts[start] : firsts[end]][: len(ids) - framed.cut]
            words, positions = np.unique(kept, return_index=True)
            if frame.architecture == "decoder":
                positions = len(kept) - 1 - np.unique(kept[::-1], return_index=True)[1]
            is_own = np.isin(words, own)
            tagged = words[is_own]
            tags = dict(
                zip(positions[is_own].tolist(), (item.tags[word] for word in tagged), strict=True)
            )
            if frame.architecture != "decoder":
                tags |= self._tags_of_blanks(item, kept, own)
            places = np.array(sorted(tags), np.int64)
            columns = {
                "input_ids": framed.ids,
                "tag_positions": places + len(frame.head),
                "tags": [tags[place] for place in places.tolist()],
                "word_numbers": [*[NO_WORD] * len(frame.head), *kept, *[NO_WORD] * len(frame.tail)],
                "record": record_bytes(
                    {
                        "first": int(own[0]),
                        "words": [item.words[word] for word in own],
                        "tags": [item.tags[word] for word in own],
                    }
                ),
            }
            labels = Counter(metadata.labels[item.tags[word]] for word in tagged)
            notes = (
                {"words_without_tokens": len(own) - len(tagged)} if len(tagged) < len(own) else {}
            )
            rows.append(BuiltExample(columns, int(own[0]), framed.cut, labels=labels, notes=notes))
        return rows

    def _tags_of_blanks(self, item: TaggedWords, numbers: Int64, own: Int64) -> dict[int, int]:
        """Return the tags of the blank tokens of a window by place, for those before a word that the window labels.

        Args:
            item: the sentence.
            numbers: word of each token of the window, [tokens]; `NO_WORD` for blank ones.
            own: words that the window labels.
        """
        filled = np.flatnonzero(numbers != NO_WORD)
        blanks = np.flatnonzero(numbers == NO_WORD)
        blanks = blanks[blanks < filled[-1]] if len(filled) else blanks[:0]
        order = np.searchsorted(filled, blanks)
        tags: dict[int, int] = {}
        for place, number in zip(blanks.tolist(), order.tolist(), strict=True):
            word = int(numbers[filled[number]])
            is_inside = number > 0 and numbers[filled[number - 1]] == word
            label = self._label_before(self.metadata.labels[item.tags[word]], is_inside=is_inside)
            if label in self.metadata.labels and word in own:
                tags[place] = self.metadata.labels.index(label)
        return tags

    def _label_before(self, label: str, *, is_inside: bool) -> str:
        """Return the class of a blank before the rest of a word, or between it and the word before."""
        if "entity_f1" not in self.metadata.metrics or not label.startswith("B-"):
            return label
        return f"I-{label[2:]}" if is_inside else NO_ENTITY


def words_with_tags(rows: RowBatch, row: int) -> tuple[Int64, Int64]:
    """Return the places among the tags of a row that are those of words, and the words; blank tokens have tags, too."""
    positions = rows.columns["tag_positions"][row].astype(np.int64)
    words = rows.columns["word_numbers"][row][positions].astype(np.int64)
    places = np.flatnonzero(words != NO_WORD)
    return places, words[places]
