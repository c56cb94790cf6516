"""Build rows of texts that may become several overlapping windows: for question answering and for tagging."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.columns import UNDO, Feature, Role
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import Question, TaggedWords, TaskFacts
from clozeline.pipeline.tasks.task_rows import (
    INPUT_IDS,
    RECORD,
    SEGMENT_STARTS,
    BuiltExample,
    Frame,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.tokenize.tokenizers import Encoding

NO_WORD: Final = 65_535
"""Word index of a token without a word."""
NO_ENTITY: Final = "O"
"""Class of a word, or a blank, that is no part of an entity."""
_QUESTION: Final = 64
"""Tokens of a question that are kept (arXiv 1810.04805); at most half of a row."""
ANSWER_SPAN: Final = Feature(
    "answer_span", "uint16", Role("label", head="span"), "its first and last place; 0 0: none in this window"
)
ANSWER_PLACES: Final = Feature(
    "answer_places",
    "uint16",
    Role("position", "input_ids", head="span"),
    "where an answer may begin or end: 0 and the text's",
)
_OWNED: Final = Feature("owned_places", "uint16", UNDO, "those of them that have most context in this window")
_OFFSETS: Final = Feature("offsets", "uint32", UNDO, "each token's first character, and that after its last")
_TAG_AT: Final = Feature(
    "tag_positions",
    "uint16",
    Role("position", "input_ids", head="tagging"),
    "tokens with a tag: of words, and blanks",
)
_TAGS: Final = Feature(
    "tags", "uint16", Role("label", "tag_positions", head="tagging", below="classes"), "numbers of their classes"
)
_WORDS: Final = Feature("word_numbers", "uint16", UNDO, f"each token's word in its sentence, {NO_WORD}: none")


def token_spans(text: str, starts: Int64, ends: Int64 | None = None) -> Int64:
    """Return the first character of each token and the one after its last, [tokens, 2], without surrounding whitespace.

    Tokens that share a character all span it; the first of them holds its first byte. A whitespace token is empty.

    Args:
        text: the encoded text.
        starts: `Encoding.starts`, [tokens].
        ends: `Encoding.ends`, [tokens]; None if no token ends inside a character.

    Example:
        >>> token_spans(" a  bc", np.array([0, 2, 5])).tolist()
        [[1, 2], [4, 5], [5, 6]]
    """
    # where the next token with another start begins [T]
    following = np.append(starts, len(text))[np.searchsorted(starts, starts, side="right")]
    following = following if ends is None else np.maximum(following, ends)
    # for each character: end of the last and start of the next visible one, [characters + 1]
    positions = np.arange(len(text) + 1)
    blank = np.fromiter(map(str.isspace, text), np.bool_, len(text))
    last = np.maximum.accumulate(np.where(np.append(True, ~blank), positions, 0))
    first = np.minimum.accumulate(np.where(np.append(~blank, True), positions, len(text))[::-1])[::-1]
    begins = np.minimum(first[starts], following)
    return np.stack((begins, np.maximum(last[following], begins)), axis=1)


def word_bounds(words: Sequence[str]) -> Int64:
    """Return the characters of words joined by single spaces, [words, 2]; `["a", "bc"]` gives 0:1 and 2:4."""
    ends = np.array(list(accumulate((len(word) + 1 for word in words), initial=0)), np.int64)
    return np.stack((ends[:-1], ends[1:] - 1), axis=1)


def word_numbers(spans: Int64, bounds: Int64) -> Int64:
    """Return the index of the word in which each token starts, [tokens]; `NO_WORD` for an empty token."""
    numbers = np.searchsorted(bounds[:, 0], spans[:, 0], side="right") - 1
    return np.where(spans[:, 0] < spans[:, 1], numbers, NO_WORD)


def first_tokens(spans: Int64, bounds: Int64) -> Int64:
    """Return the token that holds the first byte of each word, [words]; -1 for a word without tokens.

    `spans` are the character offsets of tokens, [tokens, 2], ascending; `bounds` of words, [words, 2].

    Example:
        >>> first_tokens(np.array([[0, 2], [2, 3], [5, 6]]), np.array([[0, 3], [4, 5], [5, 6]])).tolist()
        [0, -1, 2]
    """
    begins = bounds[:, 0]
    tokens = np.searchsorted(spans[:, 1], begins, side="right")
    return np.where(np.append(spans[:, 0], np.iinfo(np.int64).max)[tokens] <= begins, tokens, -1)


def sliding_windows(sizes: Sequence[int] | Int64, room: int, step: int) -> list[tuple[int, int]]:
    """Return overlapping windows over the units of a text as (first, after last) unit indices.

    A window holds as many units as fit into `room`, at least one. The next window starts `step` tokens later, or at the
    first unit after that; no unit is skipped and every window adds a new one. For single tokens these are BERT's
    windows for SQuAD (arXiv 1810.04805).

    Args:
        sizes: tokens of each unit, such as a word.
        room: tokens of a window.
        step: tokens between the starts of two windows.

    Example:
        >>> sliding_windows([1] * 10, room=6, step=3), sliding_windows([3, 3, 3], room=6, step=3)
        ([(0, 6), (3, 9), (6, 10)], [(0, 2), (1, 3)])
    """
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    windows: list[tuple[int, int]] = []
    start = 0
    while True:
        end = max(start + 1, int(np.searchsorted(offsets, offsets[start] + room, side="right")) - 1)
        if not windows or end > windows[-1][1]:
            windows.append((start, min(end, len(sizes))))
        if end >= len(sizes):
            return windows
        following = int(np.searchsorted(offsets[: end + 1], offsets[start] + step, side="left"))
        start = min(max(following, start + 1), end)


def assign_to_windows(windows: Sequence[tuple[int, int]], sizes: Sequence[int] | Int64) -> Int64:
    """Return the index of the window in which each unit has the most context, [units].

    The context of a unit is the smaller of its two sides plus a hundredth of the window's length, as in BERT's code;
    the first window wins a tie. `sizes` are the tokens of each unit.

    Example:
        >>> assign_to_windows([(0, 6), (3, 9), (6, 10)], [1] * 10).tolist()
        [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    best = np.full(len(sizes), -1, np.int64)
    window_of = np.zeros(len(sizes), np.int64)
    for number, (start, end) in enumerate(windows):
        # tokens before and after each unit of this window; contexts are scaled by 100 to stay integers
        left = offsets[start:end] - offsets[start]
        right = offsets[end] - offsets[start + 1 : end + 1]
        context = 100 * np.minimum(left, right) + offsets[end] - offsets[start]
        better = context > best[start:end]
        best[start:end][better] = context[better]
        window_of[start:end][better] = number
    return window_of


class AnswerRows(TaskRows[Question]):
    """Rows `[CLS] question [SEP] context [SEP]` for the head span, in windows over the context (arXiv 1810.04805 §4.2).

    A window that does not contain the complete answer points to [CLS], position 0. The first accepted answer is the
    label, extended to whole tokens. `offsets` map token positions back to characters of the context; `record` holds
    the context, the question and its id, and the accepted answers.
    """

    per_token: ClassVar = 10

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (INPUT_IDS, *[SEGMENT_STARTS] * frame.segments, ANSWER_SPAN, ANSWER_PLACES, _OWNED, _OFFSETS, RECORD)

    def texts(self, item: Question) -> Sequence[str]:
        return (item.question, item.context)

    def build(self, item: Question, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the windows of a question; `no_tokens` if it, its context or its answer has none."""
        question, context = encodings
        frame, max_length = self.form.frame, self.form.max_length
        question_ids = question.ids[: min(_QUESTION, max_length // 2)]
        spans = token_spans(item.context, context.starts, context.ends)
        if not len(question_ids) or not len(context.ids):
            return "no_tokens"
        # first and last context token that overlap the first accepted answer
        first = last = -1
        if item.answers:
            start, text = item.answers[0]
            overlaps = (spans[:, 0] < start + len(text)) & (spans[:, 1] > start) & (spans[:, 0] < spans[:, 1])
            if not overlaps.any():
                return "no_tokens"
            first, last = (int(token) for token in np.flatnonzero(overlaps)[[0, -1]])
        # windows over the context tokens, and the window of maximum context of each token [T]
        room = max_length - frame.length(2) - len(question_ids)
        sizes = np.ones(len(context.ids), np.int64)
        windows = sliding_windows(sizes, room, self.form.step(room))
        window_of = assign_to_windows(windows, sizes)
        cut = len(question.ids) - len(question_ids)
        begin = len(frame.head) + len(question_ids) + len(frame.between)
        answers = [text for _, text in item.answers]
        record = {"id": item.key, "question": item.question, "context": item.context, "answers": answers}
        rows: list[BuiltExample] = []
        for number, (start, end) in enumerate(windows):
            row = self.framed(question_ids, context.ids[start:end])
            has_answer = start <= first and last < end
            offsets = np.zeros((len(row.ids), 2), np.int64)
            offsets[begin : begin + end - start] = spans[start:end]
            columns = {
                "input_ids": row.ids,
                "segment_starts": row.segment_starts,
                "answer_span": [token - start + begin for token in (first, last)] if has_answer else [0, 0],
                "answer_places": np.append(0, np.arange(begin, begin + end - start)),
                "owned_places": np.flatnonzero(window_of[start:end] == number) + begin,
                "offsets": offsets.reshape(-1),
                "record": record_bytes(record),
            }
            note = "windows_with_answer" if has_answer else "windows_without_answer"
            rows.append(BuiltExample(columns, start, cut, 0 if rows else cut, notes={note: 1}))
        if item.answers and not any("windows_with_answer" in row.notes for row in rows):
            rows[0] = replace(rows[0], notes={**rows[0].notes, "questions_without_window": 1})
        return rows


class TaggedRows(TaskRows[TaggedWords]):
    """Rows for the head tagging (BERT, arXiv 1810.04805 §5.3): each word is labeled at its first token.

    The first one with a glyph: a token that is a blank alone belongs to no word, but other programs read a tag there.
    So it learns the one under which the next word, if it continues an entity, stays with it. A decoder has read the
    entire word at its last token only, so there it is labeled at that one.

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
        return (INPUT_IDS, _TAG_AT, _TAGS, _WORDS, RECORD)

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
            framed = self.framed(ids)
            # words with a token in this window, and the position of the first or last one
            kept = numbers[firsts[start] : firsts[end]][: len(ids) - framed.cut]
            words, positions = np.unique(kept, return_index=True)
            if frame.architecture == "decoder":
                positions = len(kept) - 1 - np.unique(kept[::-1], return_index=True)[1]
            is_own = np.isin(words, own)
            tagged = words[is_own]
            tags = dict(zip(positions[is_own].tolist(), (item.tags[word] for word in tagged), strict=True))
            if frame.architecture != "decoder":
                tags |= self._tags_of_blanks(item, kept, own)
            places = np.array(sorted(tags), np.int64)
            columns = {
                "input_ids": framed.ids,
                "tag_positions": places + len(frame.head),
                "tags": [tags[place] for place in places.tolist()],
                "word_numbers": [*[NO_WORD] * len(frame.head), *kept, *[NO_WORD] * len(frame.tail)],
                "record": record_bytes({
                    "first": int(own[0]),
                    "words": [item.words[word] for word in own],
                    "tags": [item.tags[word] for word in own],
                }),
            }  # fmt: skip
            labels = Counter(facts.labels[item.tags[word]] for word in tagged)
            notes = {"words_without_tokens": len(own) - len(tagged)} if len(tagged) < len(own) else {}
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
            label = self._label_before(self.facts.labels[item.tags[word]], is_inside=is_inside)
            if label in self.facts.labels and word in own:
                tags[place] = self.facts.labels.index(label)
        return tags

    def _label_before(self, label: str, *, is_inside: bool) -> str:
        """Return the class of a blank before the rest of a word, or between it and the word before."""
        if "entity_f1" not in self.facts.metrics or not label.startswith("B-"):
            return label
        return f"I-{label[2:]}" if is_inside else NO_ENTITY


def words_with_tags(rows: Rows, row: int) -> tuple[Int64, Int64]:
    """Return the places among the tags of a row that are those of words, and the words; blank tokens have tags, too."""
    positions = rows.columns["tag_positions"][row].astype(np.int64)
    words = rows.columns["word_numbers"][row][positions].astype(np.int64)
    places = np.flatnonzero(words != NO_WORD)
    return places, words[places]
