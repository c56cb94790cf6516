"""Build rows of questions about a text, in windows over the text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from clozeline.columns import UNDO, Feature, Role
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Question,
    Rejected,
    TaskItem,
    TaskMetadata,
    TaskReader,
)
from clozeline.extensions.tasks.readers.squad import SquadReader
from clozeline.extensions.tasks.rows._windows import assign_to_windows, sliding_windows
from clozeline.extensions.tasks.sets.task_rows import (
    INPUT_IDS,
    RECORD,
    SEGMENT_STARTS,
    BuiltExample,
    SpecialTokens,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.set_kinds import Problem
from clozeline.pipeline.text.normal_form import normalize_field
from clozeline.pipeline.tokenize.token_spans import token_spans
from clozeline.pipeline.tokenize.tokenizers import Encoding

_MOST_QUESTION_TOKENS: Final = 64
"""Most tokens of a question (arXiv 1810.04805), at most half of a row."""
ANSWER_SPAN: Final = Feature(
    "answer_span",
    "uint16",
    Role("label", head="span"),
    "its first and last place; 0 0: none in this window",
)
ANSWER_POSITIONS: Final = Feature(
    "answer_places",
    "uint16",
    Role("position", "input_ids", head="span"),
    "where an answer may begin or end: 0 and the text's",
)
_OWNED_PLACES: Final = Feature(
    "owned_places", "uint16", UNDO, "those of them that have most context in this window"
)
_CHARACTER_OFFSETS: Final = Feature(
    "offsets", "uint32", UNDO, "each token's first character, and that after its last"
)


class AnswerRows(TaskRows[Question]):
    """Rows `[CLS] question [SEP] context [SEP]` for the head span, in windows over the context.

    As in arXiv 1810.04805 §4.2, a window that does not contain the complete answer points to [CLS],
    position 0. The first accepted answer is the label, extended to complete tokens. `offsets` map
    token positions back to characters of the context; `record` holds the context, the question and
    its id, and the accepted answers.
    """

    for_head = "span"
    architectures = ("encoder", "encoder_decoder")
    """not decoder: its first token, to which unanswerable questions point, has read nothing"""
    per_token = 10

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (
            INPUT_IDS,
            *[SEGMENT_STARTS] * frame.segments,
            ANSWER_SPAN,
            ANSWER_POSITIONS,
            _OWNED_PLACES,
            _CHARACTER_OFFSETS,
            RECORD,
        )

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        sizes = columns["input_ids"].lengths
        offsets = columns["offsets"].lengths
        for row, offset_count in enumerate(offsets.tolist()):
            # character offsets of all tokens
            if offset_count != 2 * sizes[row]:
                yield (
                    row,
                    f"expected two offsets for each of {sizes[row]} tokens, got {offset_count}",
                )
            # the answer, among the allowed positions
            allowed = set(columns["answer_places"][row].tolist())
            owned = set(columns["owned_places"][row].tolist())
            ends = columns["answer_span"][row].tolist()
            if len(ends) != 2 or ends[0] > ends[1] or not allowed >= {*ends, *owned}:
                yield (
                    row,
                    "expected the first and last position of an answer among answer_places, got "
                    f"{ends}",
                )

    @classmethod
    def describe_answer(cls, metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
        record = json.loads(row["record"].tobytes())
        first, last = row["offsets"].reshape(-1, 2)[row["answer_span"].astype(int)].tolist()
        answer = record["context"][first[0] : last[1]]
        return {
            "answer": repr(answer) if answer else f"none in this window, of {record['answers']}"
        }

    @property
    def inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("question", "context"), ()

    def official_readers(self) -> Sequence[TaskReader]:
        return (SquadReader(SquadReader.Options(), InputLimits()),)

    def item(
        self, values: Mapping[str, Sequence[Any]], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        asked = super().item(values, reader, index, key)
        if not isinstance(asked, LabeledText):
            return asked
        given = values["context"][0]
        stored = normalize_field(reader.form, given)
        name = str(index if key is None else key)
        return Question(asked.texts[0], stored, (), name, index, given=given)

    def texts(self, item: Question) -> Sequence[str]:
        return (item.question, item.context)

    def build(self, item: Question, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the windows of a question.

        `no_tokens` if question, context or answer has no tokens.
        """
        question, context = encodings
        frame = self.form.frame
        max_length = self.form.max_length
        question_ids = question.ids[: min(_MOST_QUESTION_TOKENS, max_length // 2)]
        spans = token_spans(item.context, context.starts, context.ends)
        if not len(question_ids) or not len(context.ids):
            return "no_tokens"

        # first and last context token that overlap the first accepted answer
        first = last = -1

        if item.answers:
            start, text = item.answers[0]
            overlaps = (
                (spans[:, 0] < start + len(text))
                & (spans[:, 1] > start)
                & (spans[:, 0] < spans[:, 1])
            )
            if not overlaps.any():
                return "no_tokens"
            first, last = (int(token) for token in np.flatnonzero(overlaps)[[0, -1]])
        # windows over the context tokens, and for each token the window with most context [T]
        limit = max_length - frame.length(2) - len(question_ids)
        sizes = np.ones(len(context.ids), np.int64)
        windows = sliding_windows(sizes, limit, self.form.step(limit))
        window_of = assign_to_windows(windows, sizes)

        # one row per window
        cut = len(question.ids) - len(question_ids)
        begin = len(frame.head) + len(question_ids) + len(frame.between)
        answers = [text for _, text in item.answers]
        record = {
            "id": item.key,
            "question": item.question,
            "context": item.context,
            "answers": answers,
        }

        rows: list[BuiltExample] = []

        for number, (start, end) in enumerate(windows):
            row = self.frame_texts(question_ids, context.ids[start:end])
            has_answer = start <= first and last < end
            offsets = np.zeros((len(row.ids), 2), np.int64)
            offsets[begin : begin + end - start] = spans[start:end]
            span = [token - start + begin for token in (first, last)] if has_answer else [0, 0]
            columns = {
                "input_ids": row.ids,
                "segment_starts": row.segment_starts,
                "answer_span": span,
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
