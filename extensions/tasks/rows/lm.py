"""Build rows of texts to generate, and of dialogues."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import IDS, POSITIONS, Feature, Role
from clozeline.extensions.tasks.readers import (
    Dialogue,
    SourceTarget,
    TaskItem,
    TaskMetadata,
    TaskReader,
    TemplatePart,
    answer_runs,
)
from clozeline.extensions.tasks.readers.instructions import InstructionsReader
from clozeline.extensions.tasks.sets.task_rows import (
    INPUT_IDS,
    RECORD,
    Architecture,
    BuiltExample,
    SpecialTokens,
    TaskRows,
    record_bytes,
)
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.set_kinds import Problem
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.vocabulary import Vocabulary

_TARGET_IDS: Final = Feature("target_ids", "ids", IDS, "target, </s>")
_LABEL_POSITIONS: Final = Feature(
    "label_positions", "uint16", POSITIONS, "places of what is learned, ascending"
)
_LABEL_IDS: Final = Feature(
    "label_ids", "ids", Role("label", "label_positions"), "ids, predicted at the place before"
)


def part_ids(
    parts: Sequence[TemplatePart], encodings: Sequence[Encoding], vocabulary: Vocabulary
) -> list[NDArray[np.generic]]:
    """Return the ids of each part; `encodings` has the encodings of the text parts."""
    texts = iter(encodings)
    return [
        next(texts).ids if part.ids is None else np.array(part.ids, vocabulary.id_dtype)
        for part in parts
    ]


class GenerationRows(TaskRows[SourceTarget | Dialogue]):
    """Rows for the head lm, of an encoder-decoder or of a decoder."""

    for_head = "lm"
    per_token = 4
    generated = True

    @classmethod
    def for_architecture(cls, architecture: Architecture) -> type[TaskRows[Any]] | None:
        of_architecture: dict[str, type[TaskRows[Any]]] = {
            "encoder_decoder": TargetRows,
            "decoder": TurnRows,
        }
        return of_architecture.get(architecture)

    @property
    def inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("source",), ()

    def item_of(self, texts: Mapping[str, str], reader: TaskReader, index: int) -> TaskItem:
        source = texts["source"]
        if isinstance(reader, InstructionsReader):
            return Dialogue((("user", source), ("assistant", source)), index)
        prefix, suffix = (str(getattr(reader.options, name, "")) for name in ("prefix", "suffix"))
        return SourceTarget(source, (source,), prefix, index, suffix=suffix)

    def texts(self, item: SourceTarget | Dialogue) -> Sequence[str]:
        """Return the texts of all parts that are not encoded yet."""
        return [part.text for part in item.parts if part.ids is None]


class TargetRows(GenerationRows):
    """Rows for the head lm of an encoder-decoder: `source </s>` and `target </s>` (T5).

    See arXiv 1910.10683. Both are truncated to `max_length` and keep their `</s>`. A dialogue gives
    one row per answer; its source is everything before that answer. `record` holds the source and
    all accepted targets, not truncated.
    """

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (INPUT_IDS, _TARGET_IDS, RECORD)

    def build(
        self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return one row per answer with a source; `no_tokens` if a source or target is empty."""
        frame = self.form.frame
        vocabulary = self.tokenizer.vocabulary
        parts = part_ids(item.parts, encodings, vocabulary)
        rows: list[BuiltExample] = []

        for number, (begin, end) in enumerate(answer_runs(item.parts)):
            if not begin:
                continue  # the dialogue starts with an answer: the encoder has no source

            # remove final special tokens of both sides, which the template adds again
            tail = frame.ids(frame.tail, vocabulary)
            sides = (np.concatenate(parts[side]) for side in (slice(begin), slice(begin, end)))
            source, target = (
                ids[: -len(tail)] if ids[-len(tail) :].tolist() == tail.tolist() else ids
                for ids in sides
            )
            if not len(source) or not len(target):
                return "no_tokens"

            source_row = self.frame_texts(source)
            target_row = self.frame_texts(target)
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

    A row longer than `max_length` is truncated at its end; if no answer token remains, it is
    rejected as `too_long`. `record` holds the text before the last answer and the accepted answers.
    """

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (INPUT_IDS, _LABEL_POSITIONS, _LABEL_IDS, RECORD)

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        """Require labels that are tokens of their row, except the first token."""
        ids, positions, labels = (
            columns[feature.name] for feature in (INPUT_IDS, _LABEL_POSITIONS, _LABEL_IDS)
        )
        rows = np.repeat(np.arange(len(positions)), positions.lengths)
        own = ids.values[ids.offsets[rows] + positions.values]
        for row in rows[(own != labels.values) | (positions.values == 0)].tolist():
            yield (
                row,
                "expected label_ids that are the tokens at label_positions 1 and later, got "
                f"{labels[row].tolist()}",
            )

    def build(
        self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return the row; `no_tokens` if a part of an answer is empty."""
        vocabulary = self.tokenizer.vocabulary
        frame = self.form.frame
        parts = part_ids(item.parts, encodings, vocabulary)
        if any(
            part.is_target and not len(ids) for part, ids in zip(item.parts, parts, strict=True)
        ):
            return "no_tokens"
        # special tokens of the template around the parts; a chat template may write all of them, or
        # end with the final ones
        is_framed = isinstance(item, Dialogue) and item.is_framed
        head, tail = (
            frame.ids(() if is_framed else roles, vocabulary) for roles in (frame.head, frame.tail)
        )
        if len(tail) and parts[-1][-1:].tolist() == tail.tolist():
            tail = tail[:0]
        ids = np.concatenate((head, *parts, tail)).astype(vocabulary.id_dtype)

        # tokens that the loss covers [T]; the first position has no prediction
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
        return [
            BuiltExample(
                columns, cut=len(ids) - kept, input_cut=input_cut, notes={"labels": len(positions)}
            )
        ]
