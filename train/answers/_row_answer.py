"""Base of the answers of rows: one class, several, or one number for each text or pair of texts."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaskItem, TaskReader
from clozeline.train.answers._answer import Record, Scored, TaskAnswer, TaskModel, texts_of


class RowAnswer(TaskAnswer):
    """Answers that stand in a column of the set."""

    inputs: ClassVar[tuple[str, ...]] = ("text",)
    optional_inputs: ClassVar[tuple[str, ...]] = ("text_pair",)
    layout: str | None = "glue"

    def input_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.facts.texts > 1:
            return (*self.inputs, "text_pair"), ()
        return super().input_keys()

    def build(self, texts: Mapping[str, str], reader: TaskReader, index: int, key: Any) -> TaskItem | Rejected:
        facts = self.facts
        return LabeledText(tuple(texts.values()), 0 if facts.labels and not facts.multi_label else None, 0.0, index)

    @abstractmethod
    def answers(self, rows: Rows) -> NDArray[Any]:
        """Return the answers that rows store, an entry for each."""

    @abstractmethod
    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        """Return predictions in the form of `answers`."""

    @abstractmethod
    def record(self, prediction: Any) -> Record:
        """Return the record of a prediction."""

    @abstractmethod
    def baselines(self, task: TaskModel, train: Rows, rows: Rows) -> dict[str, NDArray[Any]]:
        """Return the predictions of each baseline."""

    def is_degenerate(self, answers: NDArray[Any], values: NDArray[Any]) -> bool:
        """Return whether the task's correlations are not defined."""
        return False

    def show(self, answer: Any) -> Any:
        """Return a stored answer as a record shows it."""
        return answer

    def records(self, task: TaskModel, rows: Rows, predicted: Mapping[int, Any]) -> Iterator[tuple[int, Record]]:
        yield from ((row, self.record(prediction)) for row, prediction in sorted(predicted.items()))

    def gold(self, task: TaskModel, rows: Rows) -> dict[int, Record]:
        pairs = zip(texts_of(rows, task.tokenizer), self.answers(rows).tolist(), strict=True)
        return {row: {"texts": list(texts), "gold": self.show(answer)} for row, (texts, answer) in enumerate(pairs)}

    def score(self, task: TaskModel, train: Rows, rows: Rows, predicted: Mapping[int, Any]) -> Scored:
        from clozeline.train.answers._metrics import score_rows

        answers, values = self.answers(rows), self.values(predicted)
        return Scored(
            len(answers),
            score_rows(self.facts, answers, values, rows),
            {
                name: score_rows(self.facts, answers, baseline, rows)
                for name, baseline in self.baselines(task, train, rows).items()
            },
            self.is_degenerate(answers, values),
        )
