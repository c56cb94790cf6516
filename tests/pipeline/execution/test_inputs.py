"""Files of an input that are read, and mistakes that are named."""

import bz2
import os
import re
from collections import Counter

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.inputs import source_files
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.recipe import InputEntry, Recipe
from tests.pipeline.clean.cleaning import recipe_for, run_clean


def names(path, **keys):
    return [
        file.source.removeprefix("default/")
        for file in source_files([InputEntry(path=str(path), **keys)])
    ]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "in"

    for name in (
        "a.jsonl",
        "deep/er/b.txt",
        ".git/HEAD",
        ".DS_Store",
        "deep/.ipynb_checkpoints/c.txt",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('{"text": "x"}\n')

    return root


def test_hidden_files_and_outputs_are_no_inputs(folder, tmp_path):
    assert names(folder) == ["a.jsonl", "deep/er/b.txt"]

    run_clean(str(folder), tmp_path / "out")
    (tmp_path / "out").rename(folder / "run")
    shards = folder / "set"
    shards.mkdir()
    for name in ("manifest.json", "shard-00000.arrow"):
        (shards / name).write_text("{}")

    assert names(folder) == ["a.jsonl", "deep/er/b.txt"]
    assert names(folder / "**" / "*") == ["a.jsonl", "deep/er/b.txt"]

    for inside in ("run", "run/clean", "set"):
        with pytest.raises(ConfigurationError, match="is an output of Clozeline"):
            names(folder / inside)

    documents = folder / "run" / "clean" / "documents"

    assert names(documents) == sorted(path.name for path in documents.iterdir()) != []


def test_an_output_inside_the_input_is_refused(folder, tmp_path):
    for output in (folder, folder / "out"):
        with pytest.raises(
            ConfigurationError, match="is inside it; choose an output folder outside the input"
        ):
            load_plan(recipe_for(str(folder), output))

    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(ConfigurationError, match="is inside it"):
        load_plan(recipe_for(str(folder), link / "out"))
    documents = tmp_path / "out" / "clean" / "documents"
    documents.mkdir(parents=True)
    (documents / "000000.arrow").write_text("x")
    with pytest.raises(ConfigurationError, match="is an output of this run"):
        load_plan(recipe_for(str(documents / "*.arrow"), tmp_path / "out"))


@pytest.mark.parametrize("pattern", ["", "**/*.txt"])
def test_a_folder_that_cannot_be_read_is_an_error(folder, monkeypatch, pattern):
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("er"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(
        StorageError, match=r"deep/er: cannot be read \(Permission denied\)"
    ) as failed:
        names(f"{folder}/{pattern}".rstrip("/"))

    assert failed.value.exit_code == 74


def test_a_broken_link_and_a_pipe_are_errors(folder):
    for name in ("gone.jsonl", "deep/lost.txt"):
        (folder / name).symlink_to(folder / "nowhere")
    for pattern in (folder, folder / "**" / "*"):
        with pytest.raises(
            StorageError,
            match=r"lost\.txt, .*gone\.jsonl: cannot be read|gone\.jsonl, .*lost\.txt: cannot",
        ):
            names(pattern)

    for name in ("gone.jsonl", "deep/lost.txt"):
        (folder / name).unlink()
    os.mkfifo(folder / "pipe.jsonl")
    with pytest.raises(ConfigurationError, match="pipe or socket"):
        names(folder)


def test_all_files_that_are_missing_or_cannot_be_read_are_named_at_once(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    (other / "away.txt").symlink_to(tmp_path / "nowhere")
    inputs = [
        str(folder),
        str(other),
        str(tmp_path / "lost.txt"),
        str(tmp_path / "*.csv"),
    ]
    with pytest.raises(ConfigurationError) as failed:
        source_files([InputEntry(path=inputs)])
    message = str(failed.value)

    assert all(name in message for name in ("in/gone.txt", "other/away.txt", "lost.txt", "*.csv"))

    with pytest.raises(StorageError, match=r"in/gone\.txt, .*other/away\.txt: cannot be read"):
        source_files([InputEntry(path=inputs[:2])])


def test_a_linked_folder_is_read_but_not_inside_itself(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c.txt").write_text("x")
    (folder / "link").symlink_to(tmp_path / "other")
    (folder / "deep" / "up").symlink_to(folder)
    assert names(folder) == ["a.jsonl", "deep/er/b.txt", "link/c.txt"]


def test_files_of_no_known_kind_are_refused_unless_a_reader_is_named(folder, tmp_path):
    for name in ("SHA256SUMS", "deep/crawl.log", "a.tar.gz", "a.warc.gz.md5"):
        (folder / name).write_text("x")
    (folder / "_SUCCESS").touch()
    with pytest.raises(ConfigurationError, match=r"holds files of unknown type \(4\)") as refused:
        load_plan(recipe_for(str(folder), tmp_path / "out"))

    assert all(
        name in str(refused.value)
        for name in ("SHA256SUMS", "crawl.log", "a.tar.gz", "a.warc.gz.md5")
    )
    assert "reader: text" in str(refused.value)

    plan = load_plan(recipe_for({"path": str(folder), "reader": "text"}, tmp_path / "out"))

    assert len(plan.inputs) == 6
    assert plan.skipped == {"marker": 1}

    for named in ("*/*.log", "SHA256SUMS"):
        with pytest.raises(
            ConfigurationError,
            match=r"no reader is known for files of this type \(1\).*reader: text",
        ):
            load_plan(recipe_for(str(folder / named), tmp_path / "out"))

    assert (
        len(
            load_plan(
                recipe_for({"path": str(folder / "*/*.log"), "reader": "lines"}, tmp_path / "out")
            ).inputs
        )
        == 1
    )


KINDS = {
    "dump.sql": (b"INSERT INTO a VALUES (1, 'words');\n", "CSV"),
    "de.po": (b'msgid "words"\nmsgstr "Worte"\n', "po2csv"),
    "film.srt": (b"1\n00:00:01,000 --> 00:00:02,000\nWords.\n", "pysubs2"),
    "film.vtt": (b"WEBVTT\n\n00:01.000 --> 00:02.000\nWords.\n", "pysubs2"),
    "paper.tex": (b"\\documentclass{article}\n", "pandoc"),
    "paper.pdf": (b"%PDF-1.4\n1 0 obj\n", "pdftotext"),
    "paper.txt": (b"%PDF-1.4\n1 0 obj\n", "pdftotext"),
    "essay.docx": (b"PK\x03\x04\x14\0\0\0", "pandoc"),
    "letter.rtf": (b"{\\rtf1 words}", "pandoc"),
    "wiki.xml": (b'<mediawiki xml:lang="en">\n<page></page></mediawiki>', "reader: mediawiki"),
    "wiki.xml.bz2": (
        bz2.compress(b'<?xml version="1.0"?>\n<mediawiki xml:lang="en">\n'),
        "reader: mediawiki",
    ),
    "Comments.xml": (b"<comments><row/></comments>", "JSON lines"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c", "unpack"),
    "words": (b"Words without an ending.", "reader: text"),
    "logo.png": (b"\x89PNG", "reader: text"),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_folder_refuses_is_refused_when_named_with_what_reads_it(tmp_path, name):
    content, tool = KINDS[name]
    path = tmp_path / "in" / name
    path.parent.mkdir()
    path.write_bytes(content)

    for source in (path, path.parent):
        if source == path or name != "logo.png":
            with pytest.raises(ConfigurationError, match=rf"{name}[\s\S]*{tool}"):
                load_plan(recipe_for(str(source), tmp_path / "out"))

    plan = load_plan(recipe_for({"path": str(path), "reader": "text"}, tmp_path / "out"))

    assert plan.inputs[0]["reader"] == "text"


SKIPPED = {
    "_SUCCESS": "marker",
    "_committed_12": "marker",
    "_started_12": "marker",
    "part-0.parquet.crc": "marker",
    "_metadata": "marker",
    "lang=en/_SUCCESS": "marker",
    "_delta_log/0.json": "marker",
    "_temporary/0/part-0.jsonl": "marker",
    "a/style.css": ".css",
    "a/app.js": ".js",
    "a/app.min.js.gz": ".js",
    "logo.PNG": ".png",
    "font.woff2": ".woff2",
    "film.mp4": ".mp4",
}


@pytest.mark.parametrize("pattern", ["", "**/*"])
def test_markers_of_other_systems_and_files_without_text_are_skipped_and_counted(
    folder, tmp_path, pattern
):
    for name in SKIPPED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")

    (folder / "vue.js").mkdir()
    (folder / "vue.js" / "_notes.md").write_text("words")
    source = f"{folder}/{pattern}".rstrip("/")

    assert names(source) == ["a.jsonl", "deep/er/b.txt", "vue.js/_notes.md"]

    done = run_clean(source, tmp_path / "out")

    plan = load_plan(recipe_for(source, tmp_path / "out"))
    assert plan.skipped == Counter(SKIPPED.values())
    assert "dropped (files): 8 skipped by the name: marker" in str(list(done.summary.row.remarks()))


def test_a_named_reader_reads_all_but_markers(folder, tmp_path):
    (folder / "app.js").write_text("let x = 1")
    (folder / "_SUCCESS").write_text("x")
    assert names(folder, reader="text") == ["a.jsonl", "app.js", "deep/er/b.txt"]


def test_a_folder_of_skipped_files_alone_is_an_error(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "style.css").write_text("x")
    with pytest.raises(ConfigurationError, match="no file to read"):
        names(tmp_path / "in")


def test_files_of_a_task_have_readers_of_their_own(folder, tmp_path):
    """A treebank's `.conllu` is no kind of text."""
    (folder / "en-ud-train.conllu").write_text("1\tdogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    text = recipe_for(str(folder), tmp_path / "out")
    keys = {"corpus": "test", "input": str(folder), "output": str(tmp_path / "out")}
    reader = {"name": "conllu", "task": "pos", "column": "upos"}
    task = validate(Recipe, {**keys, "tasks": {"reader": reader}}, "test")
    with pytest.raises(ConfigurationError, match=r"holds files of unknown type \(1\)"):
        load_plan(text)

    assert len(load_plan(task).inputs) == len(names(folder))


def test_a_pattern_below_a_folder_with_a_bracket_is_told_how_to_write_it(tmp_path):
    (tmp_path / "in[1]").mkdir()
    (tmp_path / "in[1]" / "a.txt").write_text("words")
    with pytest.raises(ConfigurationError, match=re.escape("in[[]1]")):
        names(tmp_path / "in[1]" / "*.txt")
    assert names(f"{tmp_path}/in[[]1]/*.txt") == ["in[1]/a.txt"]
