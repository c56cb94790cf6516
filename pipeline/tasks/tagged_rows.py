"""Build rows for token classification: the first token of each word carries the word's label."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.readers import TaggedWords, TaskFacts
from clozeline.pipeline.tasks.sliding_windows import assign_to_windows, sliding_windows
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, RECORD, BuiltExample, TaskRows, record_bytes
from clozeline.pipeline.tasks.token_offsets import NO_WORD, token_spans, word_bounds, word_numbers
from clozeline.pipeline.tokenize.tokenizers import Encoding

_POSITIONS: Final = Feature("tag_positions", "uint16", 1, "places in input_ids of the first tokens of words with a tag")
_TAGS: Final = Feature("tags", "uint16", 1, "numbers of their classes; the names stand in the manifest")
_WORDS: Final = Feature("word_numbers", "uint16", 1, f"number of each token's word in its sentence, {NO_WORD} for none")


class TaggedRows(TaskRows[TaggedWords]):
    """Rows for the head tagging (BERT, arXiv 1810.04805 §5.3).

    A sentence is encoded as its words joined by single spaces. If it exceeds `max_length`, it becomes windows that
    start and end between words; each word is labeled once, in the window where it has the most context. `record` holds
    the words and tags that belong to the window, including words without tokens (which are counted), and `first`, the
    index of the first of them.

    Example (a word of two tokens, then one of one):
        input_ids [CLS] un ##able . [SEP], word_numbers none 0 0 1 none, tag_positions 1 3
    """

    per_token: ClassVar = 6

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (INPUT_IDS, _POSITIONS, _TAGS, _WORDS, RECORD)

    def texts(self, item: TaggedWords) -> Sequence[str]:
        return (item.text,)

    def build(self, item: TaggedWords, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the windows of a sentence; `no_tokens` if none of its words has a token."""
        (encoding,) = encodings
        frame, facts = self.form.frame, self.facts
        # word index of each token [T], and the first token of each word [W + 1]
        numbers = word_numbers(token_spans(item.text, encoding.starts, encoding.ends), word_bounds(item.words))
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
            framed = frame.row([ids], self.tokenizer.vocabulary, self.form.max_length)
            # words with a token in this window, and the position of the first one
            kept = numbers[firsts[start] : firsts[end]][: len(ids) - framed.cut]
            words, positions = np.unique(kept, return_index=True)
            is_own = np.isin(words, own)
            tagged, positions = words[is_own], positions[is_own] + len(frame.head)
            columns = {
                "input_ids": framed.ids,
                "tag_positions": positions,
                "tags": [item.tags[word] for word in tagged],
                "word_numbers": [*[NO_WORD] * len(frame.head), *kept, *[NO_WORD] * len(frame.tail)],
                "record": record_bytes({
                    "first": int(own[0]),
                    "words": [item.words[word] for word in own],
                    "tags": [item.tags[word] for word in own],
                }),
            }  # fmt: skip
            labels = Counter(facts.labels[item.tags[word]] for word in tagged)
            notes = {"words_without_tokens": len(own) - len(tagged)} if len(tagged) < len(own) else {}
            rows.append(BuiltExample(columns, int(own[0]), framed.cut, labels, notes))
        return rows
