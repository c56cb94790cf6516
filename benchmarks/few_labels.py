"""Write files of a task with few labels.

Test rows share no document with the others; training rows are drawn.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import config_file, read_composed
from clozeline.extensions.tasks.readers import Rejected, TaskReader
from clozeline.extensions.tasks.registries import TASK_READERS
from clozeline.extensions.tasks.sets.splits import split_by_group
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tables import read_json_value, read_text_lines
from clozeline.seeding import hash64

OF_GLUE: Final = ("cola", "mrpc", "rte")
"""Tasks that are trained by the recipe of SST-2."""


def recipe_of(task: str) -> str:
    return "sst2" if task in OF_GLUE else task


def reader_of(task: str) -> TaskReader:
    """Return the reader of a task's recipe, with its options."""
    recipe = read_composed(Recipe, config_file(f"recipe:tasks/{recipe_of(task)}", "pipeline.yaml"))
    options = recipe["tasks"]["reader"] | ({"task": task} if task in OF_GLUE else {})
    reader: TaskReader = TASK_READERS.resolve(options).build(InputLimits())
    return reader


def write_parts(
    task: str, paths: Sequence[Path], folder: Path, counts: Sequence[int], test: float
) -> list[Path]:
    """Write test and training rows in the format of their file.

    Return the test file, then the training files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reader = reader_of(task)
    items = list(reader.read(reader.open(paths[0])))
    splits = split_by_group(items, {} if len(paths) > 1 else {"test": test}, "train", seed=1)
    starts = sorted({item.index for item in items})
    ends = dict(zip(starts, [*starts[1:], None], strict=True))
    rows = [
        (item.index, split)
        for item, split in zip(items, splits, strict=True)
        if not isinstance(item, Rejected)
    ]

    training = sorted(
        (start for start, split in rows if split == "train"), key=lambda at: hash64("labels", at)
    )
    questions = ".json" in paths[0].suffixes
    lines = (
        []
        if questions
        else [
            line if isinstance(line, str) else ""
            for _, line in read_text_lines(paths[0], InputLimits())
        ]
    )

    def write(name: str, chosen: Sequence[int]) -> Path:
        path = folder / f"{name}{paths[0].name.removesuffix('.zst')}"
        if questions:
            path.write_text(json.dumps(select_questions(paths[0], set(chosen))), encoding="utf-8")
            return path
        parts = [lines[: starts[0]], *(lines[start : ends[start]] for start in sorted(chosen))]
        path.write_text("".join(f"{line}\n" for part in parts for line in part), encoding="utf-8")
        return path

    test_file = (
        paths[1]
        if len(paths) > 1
        else write("test-", [start for start, split in rows if split == "test"])
    )

    return [test_file, *(write(f"{count}-", training[:count]) for count in counts)]


def select_questions(path: Path, chosen: set[int]) -> Any:
    """Return a file of questions with only some of them, by their index."""
    data = read_json_value(path, InputLimits())
    numbers = itertools.count()
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [asked for asked in paragraph["qas"] if next(numbers) in chosen]
    return data
