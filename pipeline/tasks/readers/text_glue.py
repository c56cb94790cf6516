"""Reader of GLUE in T5's text-to-text format (arXiv 1910.10683 §2.4, appendix D)."""

from dataclasses import replace
from typing import ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import LabeledText, Row, SourceTarget, TaskFacts
from clozeline.pipeline.tasks.readers.glue import Glue

_WORDS: Final = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "qqp": ("not_duplicate", "duplicate"),
}
"""Target texts of classes that GLUE names by numbers; the other tasks name theirs by words."""


def score_words(score: float) -> str:
    """Return a score as T5 is trained on it: rounded to 0.2 (half to even), with one decimal.

    Example:
        >>> [score_words(score) for score in (2.5, 2.57, 0.1, 0.3, 3.8)]
        ['2.4', '2.6', '0.0', '0.4', '3.8']
    """
    return f"{round(5 * score) / 5:.1f}"


class TextGlue(Glue):
    """GLUE's files for the head lm: a model reads `task name: text` and generates the class.

    The metrics are GLUE's, over the classes or scores that the generated texts name; any other text is wrong. MNLI
    puts its hypothesis first, as T5 does.

    Example (mnli):
        `mnli hypothesis: It rains. premise: It pours.` to `entailment`
    """

    VERSION: ClassVar[int] = 2

    @config_class
    class Options:
        task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte"]
        """task of the collection"""

    @property
    def facts(self) -> TaskFacts:
        facts = super().facts
        return replace(facts, head="lm", texts=1, labels=(), words=_WORDS.get(facts.name, facts.labels))

    def item(self, row: Row, index: int) -> SourceTarget:  # type: ignore[override]
        item, task = super().item(row, index), self.options.task
        assert isinstance(item, LabeledText), "a row of a task on texts"
        names = self.task.exported or self.task.texts
        fields = [f"{name}: {text.strip()}" for name, text in zip(names, item.texts, strict=True)]
        source = " ".join(reversed(fields) if task == "mnli" else fields)
        target = self.facts.words[item.label or 0] if item.target is None else score_words(item.target)
        return SourceTarget(source, (target,), f"{task} ", index)
