"""Questions about a text: windows over the text, and the places of the answer in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.labeled_rows import SEGMENT_STARTS
from clozeline.pipeline.tasks.readers import Question, TaskFacts
from clozeline.pipeline.tasks.sliding_windows import assign_to_windows, sliding_windows
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, RECORD, BuiltExample, TaskRows, record_bytes
from clozeline.pipeline.tasks.token_offsets import token_spans
from clozeline.pipeline.tokenize.tokenizers import Encoding

_QUESTION: Final = 64
"""Tokens of a question that are kept (arXiv 1810.04805); at most half of a row."""
_SPAN: Final = Feature("answer_span", "uint16", 1, "first and last place of the answer; 0 0: this window has none")
_PLACES: Final = Feature("answer_places", "uint16", 1, "places where an answer may begin or end: 0 and the text's")
_OWNED: Final = Feature("owned_places", "uint16", 1, "those of them that have most context in this window")
_OFFSETS: Final = Feature("offsets", "uint32", 1, "first character of each token in the text and that after its last")


class AnswerRows(TaskRows[Question]):
    """Rows `[CLS] question [SEP] text [SEP]` for the head span, several windows of a long text (arXiv 1810.04805 §4.2).

    A window without the whole answer has the place 0, [CLS], as its answer. An answer is that of the first accepted
    one; where it begins or ends inside a token, the whole token belongs to it. `offsets` lead from places to characters
    of the text, so that an answer is never put together from tokens; `record` has the text, the question's identifier
    and the accepted answers.
    """

    per_token: ClassVar = 10

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""
        segments = (SEGMENT_STARTS,) if frame.segments else ()
        return (INPUT_IDS, *segments, _SPAN, _PLACES, _OWNED, _OFFSETS, RECORD)

    def texts(self, item: Question) -> Sequence[str]:
        """Return question and text."""
        return (item.question, item.context)

    def build(self, item: Question, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the windows of a question; `no_tokens` where it, its text or its answer has none."""
        question, text = encodings
        asked = question.ids[: min(_QUESTION, self.form.max_length // 2)]
        spans = token_spans(item.context, text.starts, text.ends)
        if not len(asked) or not len(text.ids):
            return "no_tokens"
        answer = None
        if item.answers:
            start, content = item.answers[0]
            inside = (spans[:, 0] < start + len(content)) & (spans[:, 1] > start) & (spans[:, 0] < spans[:, 1])
            if not inside.any():
                return "no_tokens"
            answer = int(inside.argmax()), len(inside) - 1 - int(inside[::-1].argmax())
        room = self.form.max_length - self.form.frame.length(2) - len(asked)
        sizes = np.ones(len(text.ids), np.int64)
        found = sliding_windows(sizes, room, self.form.step(room))
        window_of = assign_to_windows(found, sizes)
        cut = len(question.ids) - len(asked)
        rows = []
        for number, window in enumerate(found):
            owned = np.flatnonzero(window_of[slice(*window)] == number)
            rows.append(self._row(item, (asked, text.ids), spans, window, owned, answer, cut))
        if answer is not None and not any("windows_with_answer" in row.notes for row in rows):
            rows[0] = replace(rows[0], notes={**rows[0].notes, "questions_without_window": 1})
        return rows

    def _row(
        self,
        item: Question,
        ids: tuple[Int64, Int64],
        spans: Int64,
        window: tuple[int, int],
        owned: Int64,
        answer: tuple[int, int] | None,
        cut: int,
    ) -> BuiltExample:
        frame, (start, end) = self.form.frame, window
        row = frame.row([ids[0], ids[1][start:end]], self.tokenizer.vocabulary, self.form.max_length)
        begin = len(frame.head) + len(ids[0]) + len(frame.between)
        inside = answer is not None and start <= answer[0] and answer[1] < end
        offsets = np.zeros((len(row.ids), 2), np.int64)
        offsets[begin : begin + end - start] = spans[start:end]
        columns = {
            "input_ids": row.ids,
            "segment_starts": row.segment_starts,
            "answer_span": [index - start + begin for index in answer] if answer and inside else [0, 0],
            "answer_places": np.append(0, np.arange(begin, begin + end - start)),
            "owned_places": owned + begin,
            "offsets": offsets.reshape(-1),
            "record": record_bytes({
                "id": item.key, "question": item.question, "context": item.context,
                "answers": [text for _, text in item.answers],
            }),
        }  # fmt: skip
        notes = {"windows_with_answer" if inside else "windows_without_answer": 1}
        return BuiltExample(columns, start, cut, {}, notes)
