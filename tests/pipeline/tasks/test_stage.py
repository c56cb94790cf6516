from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.unit_record import UnitRecord
from clozeline.pipeline.recipe import load_recipe
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.tasks.stage import TasksStage
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.run_counts import check_run
from tests.pipeline.task_files import (
    labeled_row,
    make_labeled_sets,
    make_sets,
    open_split,
    sentences,
    texts_of,
    write_recipe,
    write_task,
    write_vocabulary,
)


def words(folder: Path, *more: str) -> list[str]:
    given = [
        f"input={folder / 'files'}",
        f"tokenizer.path={folder / 'words' / 'vocab.txt'}",
        f"output={folder / 'out'}",
    ]
    return ["--config", str(folder / "recipe.yaml"), *given, *more]


def test_one_set_for_each_split_with_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sets = make_sets(tmp_path)
    rows = sentences(81)
    for split, part in (("train", rows[:60]), ("dev", rows[60:])):
        expected: dict[str, list[int]] = {}
        for text, label in part:
            expected.setdefault(text, []).append(label)
        found = texts_of(open_split(sets, split))
        assert {text: sorted(labels) for text, labels in found.items()} == expected
        assert validate(sets / split).startswith(f"OK: sst2/{split} (examples, arrow)")
    assert sorted(path.name for path in sets.iterdir()) == ["dev", "train"]
    assert "test.tsv has no labels (official test)" in caplog.text
    report = json.loads((tmp_path / "out" / "tasks" / "report.json").read_text())
    assert report["counts"]["rows_in"] == 82
    assert report["counts"]["examples"] == 81
    assert report["counts"]["refused"] == {"no_label": 1}
    assert "82" in (tmp_path / "out" / "report.html").read_text()


def test_the_stage_alone_makes_the_tokenizer_it_needs(tmp_path: Path) -> None:
    """`clozeline tasks` is one command: a published tokenizer waits for no other stage."""
    write_task(tmp_path / "files")
    write_vocabulary(tmp_path / "words")
    write_recipe(tmp_path)
    assert run_stage("tasks", words(tmp_path)) == 0
    assert len(open_split(tmp_path / "out" / "tasks" / "sst2", "train")) == 60
    record = (tmp_path / "out" / "tokenizer" / "records" / "000000.json").stat().st_mtime_ns
    assert run_stage("tasks", words(tmp_path, "tasks.max_length=12")) == 0
    assert (tmp_path / "out" / "tokenizer" / "records" / "000000.json").stat().st_mtime_ns == record


def test_manifests_say_where_rows_come_from(tmp_path: Path) -> None:
    manifest = open_split(make_sets(tmp_path, "tasks.max_length=8"), "train").manifest
    assert manifest.config["layout"] == "official"
    assert manifest.config["source"] == "default/train.tsv"
    assert manifest.config["examples_by_label"] == {"0": 30, "1": 30}
    assert manifest.config["rows_in"] == manifest.totals.samples == 60
    assert manifest.objective is not None
    assert manifest.objective.heads == ("classification",)
    assert manifest.objective.options["max_length"] == 8


def test_a_second_run_makes_nothing_and_a_changed_file_its_sets(tmp_path: Path) -> None:
    sets = make_sets(tmp_path)
    shards = sorted(sets.rglob("shard-*"))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in shards}
    assert main(words(tmp_path)) == 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in shards} == before
    file = tmp_path / "files" / "dev.tsv"
    file.write_text(file.read_text().replace("bad\t0", "bad\t1"), encoding="utf-8")
    assert main(words(tmp_path)) == 0
    assert open_split(sets, "dev").manifest.config["examples_by_label"] == {"1": 21}


def test_a_published_set_whose_file_is_gone_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A lost file must not cost its set, and the file is named, not the tokenizer before it."""
    sets = make_sets(tmp_path)
    capfd.readouterr()
    (tmp_path / "files" / "dev.tsv").unlink()
    assert main(words(tmp_path)) == 64
    error = capfd.readouterr().err
    assert f"no file of input={tmp_path / 'files'} is the split 'dev'" in error
    assert "tokenizer" not in error
    assert open_split(sets, "dev").manifest.totals.samples == 21
    shutil.rmtree(sets / "dev")
    assert main(words(tmp_path)) == 0
    assert [path.name for path in sets.iterdir()] == ["train"]


@pytest.mark.slow
def test_bytes_depend_neither_on_folders_nor_on_processes(tmp_path: Path) -> None:
    first, second = make_sets(tmp_path / "a"), make_sets(tmp_path / "b" / "c", "executor.tasks=2", "executor.workers=2")
    for split in ("train", "dev"):
        assert open_split(first, split).digest == open_split(second, split).digest
        files = [sorted(path.name for path in (sets / split).iterdir()) for sets in (first, second)]
        assert files[0] == files[1]
        for name in files[0]:
            assert (first / split / name).read_bytes() == (second / split / name).read_bytes()


def test_a_lost_shard_is_made_again(tmp_path: Path) -> None:
    sets = make_sets(tmp_path)
    shard = next((sets / "train").glob("shard-*"))
    content = shard.read_bytes()
    shard.unlink()
    assert main(words(tmp_path)) == 0
    assert shard.read_bytes() == content


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train.tsv", "sentence\tlabel\na\t7\n", "no row of it is an example: 1 bad_label; line 2: the column label "
         "holds '7', the classes are 0, 1"),
        ("dev.tsv", "a\tb\tc\n", "dev.tsv: expected a layout of this task"),
        (None, "", "no file of the input has labels"),
    ],
    ids=["labels", "layout", "test alone"],
)  # fmt: skip
def test_mistakes_in_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str | None, text: str, message: str
) -> None:
    write_task(tmp_path / "files")
    write_vocabulary(tmp_path / "words")
    write_recipe(tmp_path)
    for name in ("train.tsv", "dev.tsv") if file is None else ():
        (tmp_path / "files" / name).unlink()
    if file is not None:
        (tmp_path / "files" / file).write_text(text, encoding="utf-8")
    assert main(words(tmp_path)) == 64
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list((tmp_path / "out").glob("tasks/*/*/manifest.json"))


def test_mistakes_in_the_recipe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path / "files")
    write_vocabulary(tmp_path / "words")
    recipe = write_recipe(tmp_path)
    assert main(["--config", str(recipe), f"input={tmp_path / 'files'}", f"output={tmp_path / 'out'}"]) == 64
    assert "needs one of the keys 'train_tokenizer' and 'tokenizer'" in capfd.readouterr().err
    assert main(words(tmp_path, "tasks.reader.task=sst")) == 64
    assert "sst2" in capfd.readouterr().err
    assert main([word for word in words(tmp_path) if not word.startswith("input=")]) == 64
    assert "no input" in capfd.readouterr().err


def test_the_tokenizer_of_another_output(tmp_path: Path) -> None:
    """A run's own tokenizer is copied with its fingerprint, so that the model's ids mean the same."""
    first = make_sets(tmp_path / "a")
    second = make_sets(tmp_path / "b", f"tokenizer.path={tmp_path / 'a' / 'out'}")
    assert open_shards(first / "dev").digest == open_shards(second / "dev").digest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tasks.frame=t5"], "the task is for the head classification, t5 frames rows of an encoder_decoder"),
        (["tasks.reader={name: text_to_text}"], "the task is for the head lm, bert frames rows of an encoder"),
        (["tasks.carve={dev: 0.5}"], "expected a file of train and none of dev"),
        (["tasks.carve={train: 0.5}"], "splits other than train"),
        (["tasks.carve={a: 0.5, b: 0.5}"], "shares below 1 in all"),
    ],
    ids=["classes", "texts", "both", "train", "all"],
)
def test_what_does_not_go_together(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    write_task(tmp_path / "files")
    path = write_vocabulary(tmp_path / "words")
    path.write_text(path.read_text() + "[EOS]\n", encoding="utf-8")
    write_recipe(tmp_path)
    given = [f"input={tmp_path / 'files'}", f"tokenizer.path={path}", f"output={tmp_path / 'out'}"]
    assert main(["--config", str(tmp_path / "recipe.yaml"), *given, *words]) == 64
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_rows_of_train_are_left_out_of_the_others(tmp_path: Path) -> None:
    """Of a split with a file of its own, where its rows share a text with train; not where they share one with dev."""
    files, recipe = write_task(tmp_path / "files", train=60, dev=0), write_recipe(tmp_path)
    mine = {text for text, _ in sentences(60)}
    lines = [*sorted(mine), "one that nothing has taught"]
    (files / "dev.tsv").unlink()
    (files / "test.tsv").write_text("sentence\tlabel\n" + "".join(f"{text.upper()}\t1\n" for text in lines), "utf-8")
    given = [f"input={files}", f"tokenizer.path={write_vocabulary(tmp_path / 'words')}", f"output={tmp_path / 'out'}"]
    words = [*given, "tasks.carve={dev: 0.3}"]
    assert main(["--config", str(recipe), *words]) == 0
    sets = tmp_path / "out" / "tasks" / "sst2"
    before = texts_of(open_split(sets, "test")).keys()
    assert main(["--config", str(recipe), *words, "tasks.disjoint=true"]) == 0
    train, dev, test = (texts_of(open_split(sets, name)) for name in ("train", "dev", "test"))
    assert test.keys() == before - train.keys()
    assert dev.keys() & test.keys()
    assert sum(len(labels) for one in (train, dev) for labels in one.values()) == 60
    counts = json.loads((tmp_path / "out" / "tasks" / "report.json").read_text())["counts"]
    assert counts["refused"] == {"excluded": len(before & train.keys())}


@pytest.mark.parametrize("link", [False, True])
def test_one_file_cannot_be_train_and_a_disjoint_split(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], link: bool
) -> None:
    """Without the key all its rows are counted; with it none is left, which is refused."""
    files, recipe = write_task(tmp_path / "files", train=32, dev=0), write_recipe(tmp_path)
    other = files / "train.tsv"
    if link:
        (other := files / "again.tsv").symlink_to(files / "train.tsv")
    given = [
        f"input=[{{path: {files / 'train.tsv'}, source: train}}, {{path: {other}, source: dev}}]",
        f"tokenizer.path={write_vocabulary(tmp_path / 'words')}",
        f"output={tmp_path / 'out'}",
    ]
    assert main(["--config", str(recipe), *given, "tasks.disjoint=true"]) == 64
    assert "no row of it is an example: 32 excluded" in capfd.readouterr().err
    assert main(["--config", str(recipe), *given]) == 0
    assert open_split(tmp_path / "out" / "tasks" / "sst2", "dev").manifest.config["notes"]["also_in_train"] == 32
    assert "32 also in train" in capfd.readouterr().out


def test_pseudo_labels_may_be_of_texts_of_train(tmp_path: Path) -> None:
    files, recipe = write_task(tmp_path / "files", train=60, dev=0), write_recipe(tmp_path)
    names = ("train", "train_pseudo")
    shutil.copyfile(files / "train.tsv", files / "train_pseudo.tsv")
    entries = ", ".join(f"{{path: {files / name}.tsv, source: {name}}}" for name in names)
    given = [
        f"input=[{entries}]",
        f"tokenizer.path={write_vocabulary(tmp_path / 'words')}",
        f"output={tmp_path / 'out'}",
    ]
    assert main(["--config", str(recipe), *given, "tasks.disjoint=true"]) == 0
    for name in names:
        assert sum(map(len, texts_of(open_split(tmp_path / "out" / "tasks" / "sst2", name)).values())) == 60


def test_carved_splits_hold_the_rest_of_the_file(tmp_path: Path) -> None:
    """All rows are there once, the refused one in train alone."""
    files = write_task(tmp_path / "files", train=81, dev=0)
    (files / "dev.tsv").unlink()
    with (files / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("one\ttwo\tthree\n")
    path, recipe = write_vocabulary(tmp_path / "words"), write_recipe(tmp_path)
    given = [f"input={files}", f"tokenizer.path={path}", f"output={tmp_path / 'out'}"]
    assert main(["--config", str(recipe), *given, "tasks.carve={dev: 0.3}"]) == 0
    found = [texts_of(open_split(tmp_path / "out" / "tasks" / "sst2", split)) for split in ("train", "dev")]
    assert not found[0].keys() & found[1].keys()
    assert sum(len(labels) for one in found for labels in one.values()) == 81
    counts = json.loads((tmp_path / "out" / "tasks" / "report.json").read_text())["counts"]
    assert counts["refused"] == {"fields": 1, "no_label": 1}


def test_several_classes_are_a_column_of_zeros_and_ones(tmp_path: Path) -> None:
    """The rows are counted apart from the stage, and the set passes every check."""
    sets = make_labeled_sets(tmp_path, "labels: tags")
    manifest = open_split(sets, "dev").manifest
    rows = [labeled_row(number) for number in range(120, 160)]
    assert manifest.config["examples_by_label"] == Counter(tag for row in rows for tag in row["tags"])
    assert manifest.config["reader"]["classes"] == ["bad", "film", "good"]
    found = Counter(tuple(row["labels"].tolist()) for row in blocks_of(open_split(sets, "dev")))
    assert found == Counter(tuple(int(name in row["tags"]) for name in ("bad", "film", "good")) for row in rows)
    assert found[0, 0, 0] > 0
    assert validate(sets / "dev").startswith("OK")
    assert check_run(tmp_path / "out")


def blocks_of(shards: ShardSet) -> Iterator[Any]:
    return (row for block in range(len(shards.index)) for row in shards.read_block(block))


def test_records_hold_the_hash_of_what_was_read(tmp_path: Path) -> None:
    make_sets(tmp_path)
    record = UnitRecord.load(tmp_path / "out" / "tasks", "main", 0)
    assert record is not None
    assert list(record.inputs) == ["default/dev.tsv"]
    assert record.counts["splits"]["dev"]["layout"] == {"official": 1}


def test_files_that_are_no_split_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_task(tmp_path / "files")
    (tmp_path / "files" / "notes.txt").write_text("of the authors", encoding="utf-8")
    make = [f"tokenizer.path={write_vocabulary(tmp_path / 'words')}", f"output={tmp_path / 'out'}"]
    assert main(["--config", str(write_recipe(tmp_path)), f"input={tmp_path / 'files'}", *make]) == 0
    assert "not read, no split by its name: default/notes.txt" in caplog.text
    record = UnitRecord.load(tmp_path / "out" / "tasks", "main", 0)
    assert record is not None
    assert record.counts["files_left"] == {"default/notes.txt": 1}


def test_the_language_of_the_input_stands_in_the_manifest(tmp_path: Path) -> None:
    files = write_task(tmp_path / "files")
    sets = make_sets(tmp_path, f"input={{path: {files}, language: en}}")
    manifest = open_split(sets, "dev").manifest
    assert manifest.languages == ("en",)
    assert manifest.totals.tokens_by_language == {"en": manifest.totals.tokens}


def test_files_of_one_name_in_several_folders_count_each(tmp_path: Path) -> None:
    """What a run finds done depends on all of them."""
    texts = {"neg/1.txt": "a plot", "no/1.txt": "a heart", "pos/1.txt": "a film"}
    for name, text in texts.items():
        (tmp_path / "files" / "train" / name).parent.mkdir(parents=True)
        (tmp_path / "files" / "train" / name).write_text(text, encoding="utf-8")
    given = [
        f"input={tmp_path / 'files'}",
        f"output={tmp_path / 'out'}",
        "tasks.reader={name: labelled, label: folder}",
    ]
    found = []
    for name in ("", *texts):
        if name:
            (tmp_path / "files" / "train" / name).write_text("dull heart", encoding="utf-8")
        found.append(TasksStage(load_recipe(write_recipe(tmp_path), given)).files())
    assert all(first != second for first, second in pairwise(found))
