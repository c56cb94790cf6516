"""Sentences whose words have one class each: the class is learnt at the first token of the word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.readers import TaggedWords, TaskFacts
from clozeline.pipeline.tasks.sliding_windows import assign_to_windows, sliding_windows
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, RECORD, BuiltExample, TaskRows, record_bytes
from clozeline.pipeline.tasks.token_offsets import NO_WORD, token_spans, word_bounds, word_numbers
from clozeline.pipeline.tokenize.tokenizers import Encoding

_PLACES: Final = Feature("tag_positions", "uint16", 1, "places in input_ids of the first tokens of words with a tag")
_TAGS: Final = Feature("tags", "uint16", 1, "numbers of their classes; the names stand in the manifest")
_WORDS: Final = Feature("word_numbers", "uint16", 1, f"number of each token's word in its sentence, {NO_WORD} for none")


class TaggedRows(TaskRows[TaggedWords]):
    """Rows for the head tagging (BERT, arXiv 1810.04805 §5.3).

    The sentence is encoded as its words with one space between two, so that every tokenizer sees words as it knows
    them. A sentence over `max_length` becomes windows that begin and end between words; each word has its tag in the
    one where it has most context, and is only read in others. So no word is learnt or scored twice, and none is lost:
    `record` has `first`, the number of the first word of the window's own, and `words` and `tags` of them all, also of
    words without tokens, which are counted.

    Example (a word of two tokens, then one of one):
        input_ids [CLS] un ##able . [SEP], word_numbers none 0 0 1 none, tag_positions 1 3
    """

    per_token: ClassVar = 6

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""
        return (INPUT_IDS, _PLACES, _TAGS, _WORDS, RECORD)

    def texts(self, item: TaggedWords) -> Sequence[str]:
        """Return the sentence."""
        return (item.text,)

    def build(self, item: TaggedWords, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the windows of a sentence; one whose words all lack tokens is refused as `no_tokens`."""
        (encoding,) = encodings
        numbers = word_numbers(token_spans(item.text, encoding.starts, encoding.ends), word_bounds(item.words))
        firsts = [int(index) for index in np.searchsorted(_fill_gaps(numbers), np.arange(len(item.words) + 1))]
        if not firsts[-1] or (numbers == NO_WORD).all():
            return "no_tokens"
        sizes = np.diff(firsts)
        room = self.form.max_length - self.form.frame.length(1)
        found = sliding_windows(sizes, room, self.form.step(room))
        window_of = assign_to_windows(found, sizes)
        rows = [
            self._row(item, encoding, numbers, np.flatnonzero(window_of == number), (firsts[start], firsts[end]))
            for number, (start, end) in enumerate(found)
        ]
        return [row for row in rows if row is not None]

    def _row(
        self, item: TaggedWords, encoding: Encoding, numbers: Int64, own: Int64, tokens: tuple[int, int]
    ) -> BuiltExample | None:
        """Return the row of a window; None where no word has its tag there."""
        if not len(own):
            return None
        frame = self.form.frame
        ids, inside = encoding.ids[slice(*tokens)], numbers[slice(*tokens)]
        framed = frame.row([ids], self.tokenizer.vocabulary, self.form.max_length)
        kept = inside[: len(ids) - framed.cut]
        words, places = np.unique(kept, return_index=True)
        given = np.isin(words, own)
        tagged, places = words[given], places[given] + len(frame.head)
        columns = {
            "input_ids": framed.ids,
            "tag_positions": places,
            "tags": [item.tags[word] for word in tagged],
            "word_numbers": [*[NO_WORD] * len(frame.head), *kept, *[NO_WORD] * len(frame.tail)],
            "record": record_bytes({
                "first": int(own[0]),
                "words": [item.words[word] for word in own],
                "tags": [item.tags[word] for word in own],
            }),
        }  # fmt: skip
        labels = Counter(self.facts.labels[item.tags[word]] for word in tagged)
        lost = len(own) - len(tagged)
        return BuiltExample(columns, int(own[0]), framed.cut, labels, {"words_without_tokens": lost} if lost else {})


def _fill_gaps(numbers: Int64) -> Int64:
    """Return the word of each token where those of none have that of the token before them, or 0."""
    known = np.where(numbers == NO_WORD, 0, numbers)
    return np.maximum.accumulate(known)
