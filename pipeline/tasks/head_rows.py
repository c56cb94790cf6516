"""Build the rows of each head: labeled texts and pairs, choices, texts to generate; long texts are `window_rows`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import IDS, PLACES, STARTS, Feature, Role
from clozeline.pipeline.shards import SetWriter
from clozeline.pipeline.tasks.readers import (
    Choices,
    Dialogue,
    HeadName,
    LabeledText,
    Part,
    SourceTarget,
    TaskFacts,
    answer_runs,
)
from clozeline.pipeline.tasks.task_rows import (
    INPUT_IDS,
    RECORD,
    SEGMENT_STARTS,
    Architecture,
    BuiltExample,
    Form,
    Frame,
    FramedRow,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.tasks.window_rows import AnswerRows, TaggedRows
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.vocabulary import Vocabulary

LABEL: Final = Feature("label", "uint16", Role("row", head="classification", below="classes"), "number of the class")
LABELS: Final = Feature(
    "labels", "uint8", Role("label", head="classification", below=2), "1 for classes of the row, else 0"
)
TARGET: Final = Feature("target", "float32", Role("row", head="regression"), "number that the row is to be given")
_SCORE: Final = replace(TARGET, role=Role("row", head="similarity"))
_FIRST: Final = Feature("input_ids", "ids", IDS, "one text, framed")
SECOND_IDS: Final = Feature(
    "input_ids_b", "ids", Role("ids", head="similarity"), "the text it is compared with, framed"
)
_ALL_IDS: Final = Feature("input_ids", "ids", IDS, "framed rows of all choices, end to end")
_CHOICE_STARTS: Final = Feature(
    "choice_starts", "uint32", Role("start", "input_ids", head="multiple_choice"), "starts of choices, first 0"
)
_ALL_SEGMENTS: Final = Feature("segment_starts", "uint32", STARTS, "starts of context and choice of each row, first 0")
_CHOICE: Final = Feature("choice", "uint16", Role("row", head="multiple_choice"), "number of the right choice")
_TARGET: Final = Feature("target_ids", "ids", IDS, "target, </s>")
_LABEL_POSITIONS: Final = Feature("label_positions", "uint16", PLACES, "places of what is learnt, ascending")
_LABEL_IDS: Final = Feature("label_ids", "ids", Role("label", "label_positions"), "ids, predicted at the place before")


def _join_rows(rows: Sequence[FramedRow]) -> dict[str, Any]:
    """Return the columns of several rows of one example, end to end."""
    starts = np.cumsum([0, *(len(row.ids) for row in rows)])[:-1]
    return {
        "input_ids": np.concatenate([row.ids for row in rows]),
        "choice_starts": starts,
        "segment_starts": [at + begin for row, begin in zip(rows, starts, strict=True) for at in row.segment_starts],
    }


class LabeledRows(TaskRows[LabeledText]):
    """Rows for the heads classification and regression, truncated to `max_length`.

    With `both_orders`, an example is `<s> a [SEP] b [CLS]` and `<s> b [SEP] a [CLS]` (Radford et al. 2018 §3.3).
    """

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        label = TARGET if facts.head == "regression" else LABELS if facts.multi_label else LABEL
        if facts.both_orders:
            of_orders = Role("start", "input_ids", head=facts.head)
            starts = Feature("choice_starts", "uint32", of_orders, "starts of both orders of the pair, first 0")
            return (_ALL_IDS, starts, *((_ALL_SEGMENTS,) if frame.segments else ()), label)
        return (INPUT_IDS, *((SEGMENT_STARTS,) if frame.segments and facts.texts > 1 else ()), label)

    def texts(self, item: LabeledText) -> Sequence[str]:
        return item.texts

    def build(self, item: LabeledText, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the framed row; `no_tokens` if a text is empty."""
        ids = [encoding.ids for encoding in encodings]
        if not all(map(len, ids)):
            return "no_tokens"
        rows = [self.framed(*ids), *([self.framed(*ids[::-1])] if self.facts.both_orders else [])]
        classes = item.classes or (() if item.label is None else (item.label,))
        labels = {self.facts.labels[index]: 1 for index in classes}
        columns = {**_join_rows(rows), "label": [item.label], "target": [item.target],
                   "labels": np.isin(np.arange(len(self.facts.labels)), classes).astype(np.uint8)}  # fmt: skip
        return [BuiltExample(columns, cut=sum(row.cut for row in rows), labels=labels)]


class PairRows(LabeledRows):
    """Rows for the head similarity: `[CLS] a [SEP]` and `[CLS] b [SEP]`, each truncated to `max_length` separately."""

    per_token: ClassVar = 2

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_FIRST, SECOND_IDS, _SCORE)

    def build(self, item: LabeledText, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return both framed rows; `no_tokens` if a text is empty."""
        if not all(len(encoding.ids) for encoding in encodings):
            return "no_tokens"
        first, second = (self.framed(encoding.ids) for encoding in encodings)
        columns = {"input_ids": first.ids, "input_ids_b": second.ids, "target": [item.target]}
        return [BuiltExample(columns, cut=first.cut + second.cut)]


class ChoiceRows(TaskRows[Choices]):
    """Rows for the head multiple_choice: `[CLS] context [SEP] choice [SEP]` for each choice (SWAG, arXiv 1808.05326).

    Each of them is truncated to `max_length` separately.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_ALL_IDS, _CHOICE_STARTS, *((_ALL_SEGMENTS,) if frame.segments else ()), _CHOICE)

    def texts(self, item: Choices) -> Sequence[str]:
        return (item.context, *item.choices)

    def build(self, item: Choices, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the rows of all choices as one example; `no_tokens` if a text is empty."""
        context, *choices = (encoding.ids for encoding in encodings)
        if not len(context) or not all(map(len, choices)):
            return "no_tokens"
        rows = [self.framed(context, choice) for choice in choices]
        columns = {**_join_rows(rows), "choice": [item.right]}
        return [BuiltExample(columns, cut=sum(row.cut for row in rows), labels={str(item.right): 1})]


def part_ids(parts: Sequence[Part], encodings: Sequence[Encoding], vocabulary: Vocabulary) -> list[NDArray[Any]]:
    """Return the ids of each part; `encodings` covers the parts that are texts."""
    texts = iter(encodings)
    return [next(texts).ids if part.ids is None else np.array(part.ids, vocabulary.id_dtype) for part in parts]


class GenerationRows(TaskRows[SourceTarget | Dialogue]):
    """Base of the rows of the head lm."""

    per_token: ClassVar = 4
    generated: ClassVar = True

    def texts(self, item: SourceTarget | Dialogue) -> Sequence[str]:
        """Return the texts of all parts that are not encoded yet."""
        return [part.text for part in item.parts if part.ids is None]


class TargetRows(GenerationRows):
    """Rows for the head lm of an encoder-decoder: `source </s>` and `target </s>` (T5, arXiv 1910.10683).

    Both are truncated to `max_length` and keep their `</s>`. A dialogue gives one row per answer; its source is
    everything before that answer. `record` holds the source and all accepted targets, not truncated.
    """

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (INPUT_IDS, _TARGET, RECORD)

    def build(self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return one row per answer but one that opens a dialogue; `no_tokens` if a source or target is empty."""
        frame, vocabulary = self.form.frame, self.tokenizer.vocabulary
        parts = part_ids(item.parts, encodings, vocabulary)
        rows: list[BuiltExample] = []
        for number, (begin, end) in enumerate(answer_runs(item.parts)):
            if not begin:
                continue  # the assistant opens the dialogue, and the encoder has nothing to read
            # the final special tokens of both sides that the frame will add
            tail = frame.ids(frame.tail, vocabulary)
            sides = (np.concatenate(parts[side]) for side in (slice(begin), slice(begin, end)))
            source, target = (
                ids[: -len(tail)] if ids[-len(tail) :].tolist() == tail.tolist() else ids for ids in sides
            )
            if not len(source) or not len(target):
                return "no_tokens"
            source_row, target_row = self.framed(source), self.framed(target)
            text, targets = item.answers[number]
            record = record_bytes({"source": text, "targets": list(targets)})
            columns = {"input_ids": source_row.ids, "target_ids": target_row.ids, "record": record}
            notes = {"targets_cut": 1} if target_row.cut else {}
            notes |= {"answers_without_source": 1} if number and not rows else {}
            cut = source_row.cut + target_row.cut
            rows.append(BuiltExample(columns, number, cut, source_row.cut, notes=notes))
        return rows or "no_tokens"


class TurnRows(GenerationRows):
    """Rows for the head lm of a decoder: the loss covers only the answers (arXiv 2203.02155).

    A row longer than `max_length` is truncated at its end; if no answer token remains, it is rejected as `too_long`.
    `record` holds the text before the last answer and the accepted answers.
    """

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (INPUT_IDS, _LABEL_POSITIONS, _LABEL_IDS, RECORD)

    def build(self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the row; `no_tokens` if a part of an answer is empty."""
        vocabulary, frame = self.tokenizer.vocabulary, self.form.frame
        parts = part_ids(item.parts, encodings, vocabulary)
        if any(part.is_target and not len(ids) for part, ids in zip(item.parts, parts, strict=True)):
            return "no_tokens"
        # the special tokens of the frame around the parts; a template may write all of them, or end with the tail
        is_framed = isinstance(item, Dialogue) and item.is_framed
        head, tail = (frame.ids(() if is_framed else roles, vocabulary) for roles in (frame.head, frame.tail))
        if len(tail) and parts[-1][-1:].tolist() == tail.tolist():
            tail = tail[:0]
        ids = np.concatenate((head, *parts, tail)).astype(vocabulary.id_dtype)
        # which tokens the loss covers [T]; the first position has no prediction
        is_target = [False, *(part.is_target for part in item.parts), item.parts[-1].is_target]
        has_loss = np.repeat(is_target, [len(head), *map(len, parts), len(tail)])
        kept = min(len(ids), self.form.max_length)
        positions = np.flatnonzero(has_loss[:kept])
        positions = positions[positions > 0]
        if not len(positions):
            return "too_long"
        source, targets = item.answers[-1]
        columns = {
            "input_ids": ids[:kept],
            "label_positions": positions,
            "label_ids": ids[positions],
            "record": record_bytes({"source": source, "targets": list(targets)}),
        }
        input_cut = len(ids) - kept - int(has_loss[kept:].sum())
        return [BuiltExample(columns, cut=len(ids) - kept, input_cut=input_cut, notes={"labels": len(positions)})]


_ROWS: Final[dict[HeadName, type[TaskRows[Any]]]] = {
    "classification": LabeledRows,
    "regression": LabeledRows,
    "tagging": TaggedRows,
    "span": AnswerRows,
    "multiple_choice": ChoiceRows,
    "similarity": PairRows,
}
_ARCHITECTURES: Final[tuple[Architecture, ...]] = ("encoder", "decoder", "encoder_decoder")
_WITHOUT: Final = {("span", "decoder"), ("similarity", "encoder_decoder")}
"""A decoder's first token, to which questions without an answer point, has read nothing; sentence vectors of an
encoder-decoder are those of its encoder alone."""
ROW_TYPES: Final[dict[tuple[HeadName, Architecture], type[TaskRows[Any]]]] = {
    **{(head, of): rows for head, rows in _ROWS.items() for of in _ARCHITECTURES if (head, of) not in _WITHOUT},
    ("lm", "encoder_decoder"): TargetRows,
    ("lm", "decoder"): TurnRows,
}
"""The row builder of each task head and model architecture."""


def set_writer(facts: TaskFacts, split: str, form: Form, vocabulary: Vocabulary) -> SetWriter:
    """Return the writer of the set of one split."""
    row_type = ROW_TYPES[facts.head, form.frame.architecture]
    features = row_type.features(facts, form.frame)
    length = form.max_length * row_type.per_token * (1 + facts.both_orders)
    path = f"{facts.name}/{split}"
    return SetWriter.of_rows(path, 1, features, vocabulary, length, "auto", {"task": path})
