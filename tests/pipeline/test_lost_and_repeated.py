"""One item lost, or handled twice, at any place inside a run: the run itself notices, whatever the
stage.

Each case changes one call of one function of one stage. Nothing else knows of it, so what notices
has counted apart. Inside dedup nothing counts: `tests/pipeline/dedup` compares it with one process.
"""

import importlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.rows import RowBatch
from tests.matrices import mark_slow_after, mark_slow_but
from tests.pipeline.task_files import write_recipe, write_task, write_vocabulary


@dataclass(frozen=True)
class Place:
    """A call inside a stage, and which of its values passes items on.

    Args:
        stage: the stage that the items are lost in.
        function: module and name, `pipeline.clean.unit:write_documents`, of a class
            `module:Class.method`.
        value: number or keyword of the argument that holds the items; None: what it returns.
        part: of what it returns, the place of the items in the tuple.
        package: that `module` is in.
    """

    stage: str
    function: str
    value: int | str | None = None
    part: int | None = None
    package: str = "pipeline"


PLACES = {
    "a document between two steps": Place("clean", "clean.unit:CleanUnit._clean_range"),
    "a document that is written": Place("clean", "clean.unit:write_documents", 1),
    "a row of a file of documents": Place("clean", "ingest.documents.files:_make_batch"),
    "a document of dedup": Place("dedup", "execution.rewritten_documents:read_documents"),
    "a document that dedup writes": Place(
        "dedup", "execution.rewritten_documents:write_documents", 1
    ),
    "a document of the tokenizer's sample": Place(
        "train_tokenizer", "tokenize.train.sample:_read_sides"
    ),
    "a text of the tokenizer's sample": Place(
        "train_tokenizer", "tokenize.train.sample:_read_texts"
    ),
    "a document before it is encoded": Place(
        "encode", "tokenize.encode.tokenize_documents:read_documents"
    ),
    "a document that is encoded": Place(
        "encode", "tokenize.encode.tokenize_documents:token_documents"
    ),
    "a run of a shard": Place("encode", "tokenize.encode.merge_runs:read_range"),
    "a row of a token shard": Place("encode", "shards.writer:write_shard", 1),
    "a token shard in the manifest": Place("encode", "shards.writer:write_manifest", "shards"),
    "a document that is balanced": Place("balance", "shards.reader:ShardSet.read_block"),
    "a training document": Place("group", "group.stage:train_documents"),
    "a held-out document": Place("group", "group.stage:heldout_documents"),
    "a copy of a document": Place("group", "group.stage:copy_documents"),
    "a document that is grouped": Place("group", "group.groupings.packed:PackedGrouping.group", 1),
    "a sample row": Place("group", "group.stage:_iter_shuffled", 0),
    "an example": Place("corrupt", "corrupt.objectives._objective:Objective.corrupt", part=0),
    "a block of examples": Place("corrupt", "corrupt.stage:CorruptedShard.blocks"),
    "an example shard in the manifest": Place("corrupt", "shards.writer:write_manifest", "shards"),
    "an example of a task": Place(
        "tasks", "sets.task_rows:TaskRows._build_all", package="extensions.tasks"
    ),
}


class Sabotage:
    """Loses or repeats one item of the values that pass a place."""

    def __init__(self, place, twice):
        self.place = place
        self.twice = twice
        self.done = False

    def install(self, monkeypatch):
        module, _, path = self.place.function.partition(":")
        holder = importlib.import_module(f"clozeline.{self.place.package}.{module}")
        *outer, name = path.split(".")
        for one in outer:
            holder = getattr(holder, one)
        monkeypatch.setattr(holder, name, self._around(getattr(holder, name)))

    def _around(self, function):
        value = self.place.value

        def altered(*given, **named):
            if isinstance(value, str):
                named[value] = self._alter(named[value])
            elif value is not None:
                given = (
                    *given[:value],
                    self._alter(given[value]),
                    *given[value + 1 :],
                )

            result = function(*given, **named)
            if value is not None:
                return result
            if self.place.part is None:
                return self._alter(result)
            parts = list(result)
            parts[self.place.part] = self._alter(parts[self.place.part])
            return tuple(parts)

        return altered

    def _alter(self, items):
        if isinstance(items, Iterator) or not hasattr(items, "__len__"):
            return self._passed(items)
        if self.done or not len(items):
            return items
        self.done = True
        chosen = [0, *range(len(items))] if self.twice else [*range(1, len(items))]
        if isinstance(items, RowBatch | pa.RecordBatch | pa.Table):
            return items.take(np.array(chosen, dtype=np.intp))
        return (
            items[chosen]
            if isinstance(items, np.ndarray)
            else type(items)(items[one] for one in chosen)
        )

    def _passed(self, items):
        for number, item in enumerate(items):
            now = number == 0 and not self.done
            self.done = self.done or now
            yield from [item] * (1 if not now else 2 * self.twice)


@pytest.fixture(scope="module")
def finished(complete, tmp_path_factory):
    """Arguments and output of a finished run over documents, and of one over a task."""
    folder = tmp_path_factory.mktemp("finished")
    files = write_task(folder / "files")
    vocabulary = write_vocabulary(folder)
    task = ["--config", str(write_recipe(folder)), f"input={files}", f"tokenizer.path={vocabulary}"]

    assert main([*task, f"output={folder / 'task'}"]) == 0

    return {"texts": complete, "task": (task, folder / "task")}


@pytest.mark.parametrize("twice", mark_slow_after(1, [False, True]))
@pytest.mark.parametrize("name", mark_slow_but([*PLACES][::6], PLACES))
def test_the_run_notices(finished, tmp_path, monkeypatch, capsys, name, twice):
    place = PLACES[name]
    arguments, output = finished["task" if place.stage == "tasks" else "texts"]
    for stage in all_stages()[: all_stages().index(place.stage)]:
        if (output / stage).is_dir():
            shutil.copytree(output / stage, tmp_path / stage, copy_function=os.link)

    sabotage = Sabotage(place, twice)
    sabotage.install(monkeypatch)
    code = main([*arguments, f"output={tmp_path}"])
    said = capsys.readouterr().err

    assert sabotage.done
    assert code in (65, 74), said  # 74: a file that the next pass expects is missing
    assert "Traceback" not in said
    assert place.stage in said[said.index("error: ") :]
