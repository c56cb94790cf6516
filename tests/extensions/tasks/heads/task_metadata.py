"""Metadata of small tasks: one class, several classes, a number."""

from clozeline.extensions.tasks.readers import (
    TaskMetadata,
)

ONE = TaskMetadata(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))


SEVERAL = TaskMetadata(
    name="t", head="classification", labels=("a", "b", "c"), metrics=(), multi_label=True
)


NUMBER = TaskMetadata(name="toy", head="regression", metrics=("pearson",))
