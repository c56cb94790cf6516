"""Facts of GLUE's tasks, held against the table of the paper (arXiv 1804.07461, table 1) and the submission format."""

from __future__ import annotations

from clozeline.pipeline.tasks.readers._glue_tasks import GLUE_TASKS

CLASSES = {"cola": 2, "sst2": 2, "mrpc": 2, "qqp": 2, "stsb": 0, "mnli": 3, "qnli": 2, "rte": 2, "wnli": 2}
METRICS = {
    "cola": {"matthews_correlation"}, "mrpc": {"accuracy", "f1"}, "qqp": {"accuracy", "f1"},
    "stsb": {"pearson", "spearman"},
}  # fmt: skip


def test_classes_and_metrics() -> None:
    for name, task in GLUE_TASKS.items():
        facts = task.facts
        assert facts.name == name
        assert len(facts.labels) == CLASSES[name]
        assert set(facts.metrics) == METRICS.get(name, {"accuracy"})
        assert (facts.positive is not None) == ("f1" in facts.metrics)
        assert facts.texts == (1 if name in ("cola", "sst2") else 2)


def test_every_cell_means_a_class_of_the_task() -> None:
    for task in GLUE_TASKS.values():
        for layout in task.layouts:
            assert not layout.has_labels or {number for _, number in layout.cells} == set(range(len(task.facts.labels)))
