"""Generate texts, or classes and numbers as texts (T5, arXiv 1910.10683), and score them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.extensions.tasks.task_heads._metrics import CLASS_METRICS, NUMBER_METRICS, degenerate
from clozeline.extensions.tasks.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    TaskHead,
    TaskModel,
    iterate_batches,
    stored_records,
)
from clozeline.extensions.tasks.task_heads._text_metrics import (
    SUMMARY_METRICS,
    TEXT_METRICS,
    sentences_of,
    signatures,
)
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tokenize.published.folders import end_ids


class LmTaskHead(TaskHead):
    """Predicts the text that the model generates greedily from the source of a row."""

    of_head = "lm"

    def predict(
        self, task: TaskModel, rows: RowBatch, rank: int = 0, size: int = 1
    ) -> dict[int, Any]:
        objective = task.manifest.objective
        tokenizer = task.tokenizer

        assert objective is not None, "a set of examples"

        decoding = Decoding(max_tokens=objective.frame.longest_input or task.manifest.max_length)
        vocabulary = tokenizer.vocabulary
        end = {vocabulary.id_of("eos", "generating answers"), *end_ids(vocabulary.folder, ())}
        start = objective.frame.decoder_start
        # a task's rows start with one token; only rows with language tokens start with their
        # target's last one
        assert start != "target_end", objective.label

        texts_by_row: dict[int, object] = {}

        for batch in iterate_batches(rows, rank, size):
            prompts = [_prompt_of(rows, row) for row in batch.tolist()]
            continuations = generate(
                task.model, prompts, decoding, end_ids=end, decoder_start=start
            )
            for row, continuation in zip(batch.tolist(), continuations, strict=True):
                ids = [token for token in continuation.ids if not vocabulary.special[token]]
                texts_by_row[row] = tokenizer.decode(ids).strip()

        return texts_by_row

    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, object]
    ) -> Iterator[tuple[int, Record]]:
        for row, text in sorted(predicted.items()):
            yield row, {"text": text, **({"label": text} if text in self.metadata.words else {})}

    def fields(self) -> dict[str, type]:
        return {"text": str, "label": str}

    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        return {
            row: {"texts": [record["source"]], "gold": record["targets"]}
            for row, record in enumerate(stored_records(rows))
        }

    def error(self, gold: Any, record: Record) -> float:
        """Return 1 unless the text is an accepted target."""
        return float(record["text"].strip() not in {target.strip() for target in gold})

    @property
    def metrics(self) -> Mapping[str, Metric]:
        if self.metadata.words:
            return {name: metric for name, metric in CLASS_METRICS.items() if not metric.of_model}
        return NUMBER_METRICS if self._is_parsed else TEXT_METRICS

    def judge(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, Any]
    ) -> Judged:
        """Return accepted and generated texts, or the classes or numbers that they name.

        A text that names no class or number is wrong, as in T5's code: of two classes it counts as
        the wrong one, of more classes as no class, and as a number it is the lowest.
        """
        golds = [record["targets"] for record in stored_records(rows)]
        texts = [predicted[row] for row in range(len(golds))]
        if not self._is_parsed:
            language = next(iter(task.manifest.languages), "und")
            return Judged(self.metadata, golds, texts, texts, language=language)
        answers = np.array([self._parse(gold[0]) for gold in golds])
        return Judged(self.metadata, answers, self._parse_all(texts, answers), texts)

    def baselines(self, task: TaskModel, train: RowBatch, rows: RowBatch) -> dict[str, Any]:
        """Return `majority`, the most frequent target of the training set.

        Summaries also have `lead_3`, the first three sentences of the source.
        """
        text = most_frequent_text([record["targets"][0] for record in stored_records(train)])
        texts = [text] * len(rows)
        if not SUMMARY_METRICS.isdisjoint(self.metadata.metrics):
            sources = [record["source"] for record in stored_records(rows)]
            lead = [" ".join(sentences_of(source)[:3]) for source in sources]
            return {"majority": texts, "lead_3": lead}
        if not self._is_parsed:
            return {"majority": texts}
        return {"majority": self.judge(task, train, rows, dict(enumerate(texts))).guesses}

    def remarks(self, judged: Judged, names: Sequence[str]) -> dict[str, Any]:
        if not self._is_parsed:
            return {"signatures": signatures(names, judged)}
        return {
            "degenerate": not self.metadata.words and degenerate(judged.gold, judged.guesses),
            "unparsable": sum(self._parse(text) is None for text in judged.predictions),
        }

    @property
    def _is_parsed(self) -> bool:
        """Whether texts name classes or numbers."""
        return self.metadata.metrics[0] not in TEXT_METRICS

    def _parse(self, text: str) -> float | None:
        text = text.strip()
        metadata = self.metadata
        if metadata.words:
            return metadata.words.index(text) if text in metadata.words else None
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) and metadata.low <= number <= metadata.high else None

    def _parse_all(self, texts: Sequence[str], answers: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the classes or numbers of texts; a text without one gets a wrong answer."""
        words = self.metadata.words
        low = self.metadata.low
        wrong = (
            (1 - answers if len(words) == 2 else np.full_like(answers, -1))
            if words
            else np.full_like(answers, low)
        )
        parsed = [self._parse(text) for text in texts]
        numbers = [wrong[row] if number is None else number for row, number in enumerate(parsed)]
        return np.array(numbers, answers.dtype)


def most_frequent_text(texts: Sequence[str]) -> str:
    """Return the most frequent text, the alphabetically first one among ties."""
    counts = Counter(texts)
    return min(counts, key=lambda text: (-counts[text], text))


def _prompt_of(rows: RowBatch, row: int) -> list[int]:
    """Return the prompt: the encoder's row, or everything before a decoder's last answer."""
    ids: list[int] = rows.columns["input_ids"][row].tolist()
    if "label_positions" not in rows.columns:
        return ids
    positions = rows.columns["label_positions"][row].astype(np.int64)
    breaks = np.flatnonzero(np.diff(positions) != 1)
    return ids[: positions[breaks[-1] + 1 if len(breaks) else 0]]
