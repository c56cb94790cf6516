"""Files of an input that are read, and mistakes that are named."""

import bz2
import os
from collections import Counter

import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.inputs import LINKS_OUT, list_inputs, source_files
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.recipe import InputEntry
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.refusals import refused

READ = ["a.jsonl", "deep/er/b.txt", "vue.js/_notes.md"]
HIDDEN = [".git/HEAD", ".DS_Store", "deep/.ipynb_checkpoints/c.txt"]
SKIPPED = {
    "_SUCCESS": "marker",
    "part-0.parquet.crc": "marker",
    "_metadata": "marker",
    "_delta_log/0.json": "marker",
    "a/style.css": ".css",
    "a/app.min.js.gz": ".js",
    "logo.PNG": ".png",
}


def names(path, **keys):
    files = source_files([InputEntry(path=str(path), **keys)])
    return [file.source.removeprefix("default/") for file in files]


def write(root, *files):
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('{"text": "x"}\n')
    return root


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "in", *READ, *HIDDEN)


@pytest.mark.parametrize("pattern", ["", "/**/*"])
def test_hidden_files_outputs_markers_and_files_without_text_are_not_read(
    folder, tmp_path, pattern
):
    write(folder, *SKIPPED)
    done = run_clean(f"{folder}{pattern}", tmp_path / "out")
    (tmp_path / "out").rename(folder / "run")
    write(folder, "set/manifest.json", "set/shard-00000.arrow")
    plan = load_plan(recipe_for(f"{folder}{pattern}", tmp_path / "out"))

    assert names(f"{folder}{pattern}") == READ
    assert plan.skipped == Counter(SKIPPED.values())
    assert names(folder, reader="text") == sorted(
        [*READ, "a/app.min.js.gz", "a/style.css", "logo.PNG"]
    )
    assert "dropped (files): 4 skipped by the name: marker" in str([*done.summary.row.remarks()])


@pytest.mark.parametrize("inside", ["run", "run/clean", "set"])
def test_an_output_is_no_input_unless_its_documents_are_named(folder, tmp_path, inside):
    run_clean(str(folder), tmp_path / "run")
    write(tmp_path, "set/manifest.json", "set/shard-00000.arrow")
    with refused("is an output of Clozeline"):
        names(tmp_path / inside)

    assert len(names(tmp_path / "run/clean/documents")) == 3


@pytest.mark.parametrize(
    ("source", "output", "said"),
    [
        ("in", "in", "is inside it; choose an output folder outside the input"),
        ("in", "link/out", "is inside it"),
        ("run/clean/documents/*.txt", "run", "is an output of this run"),
    ],
)
def test_an_output_inside_the_input_is_refused(folder, tmp_path, source, output, said):
    (tmp_path / "link").symlink_to(folder)
    write(tmp_path / "run/clean/documents", "0.txt")
    with refused(said):
        load_plan(recipe_for(str(tmp_path / source), tmp_path / output))


@pytest.mark.parametrize("pattern", ["", "/**/*.txt"])
def test_a_folder_that_cannot_be_read_is_an_error(folder, monkeypatch, pattern):
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("er"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match=r"deep/er: cannot be read \(Permission denied\)"):
        names(f"{folder}{pattern}")


@pytest.mark.parametrize(
    ("inputs", "error", "said"),
    [
        (["in", "other"], StorageError, ["in/gone.txt", "other/away.txt", "cannot be read"]),
        (["in/**/*"], StorageError, ["in/gone.txt", "cannot be read"]),
        (["in", "no.txt", "*.csv"], ConfigurationError, ["in/gone.txt", "no.txt", "*.csv"]),
        (["pipe*"], ConfigurationError, ["pipe or socket"]),
        (["only"], ConfigurationError, ["no file to read"]),
        (["in[1]/*.txt"], ConfigurationError, ["the folder in[1] is written in[[]1] in a pattern"]),
    ],
)
def test_all_files_that_are_missing_or_cannot_be_read_are_named_at_once(
    folder, tmp_path, inputs, error, said
):
    write(tmp_path, "other/a.txt", "only/style.css", "in[1]/a.txt")
    for name in ("in/gone.txt", "other/away.txt"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(error) as failed:
        source_files([InputEntry(path=[f"{tmp_path}/{name}" for name in inputs])])

    assert all(each in str(failed.value) for each in said)
    assert names(f"{tmp_path}/in[[]1]/*.txt") == ["in[1]/a.txt"]


def test_a_linked_folder_is_read_but_not_inside_itself(folder, tmp_path):
    (folder / "link").symlink_to(write(tmp_path / "other", "c.txt"))
    (folder / "deep" / "up").symlink_to(folder)
    assert names(folder) == ["a.jsonl", "deep/er/b.txt", "link/c.txt", "vue.js/_notes.md"]


KINDS = {
    "crawl.log": (b"Words.", "reader: text"),
    "wiki.xml.bz2": (
        bz2.compress(b'<?xml version="1.0"?>\n<mediawiki xml:lang="en">\n'),
        "reader: mediawiki",
    ),
    "logo.png": (b"\x89PNG", "reader: text"),
}


@pytest.mark.parametrize("name", KINDS)
def test_files_of_no_known_kind_are_refused_with_what_reads_them(tmp_path, name):
    """In a folder, pictures are skipped; a named reader reads any file."""
    content, tool = KINDS[name]
    path = write(tmp_path, f"in/{name}") / "in" / name
    path.write_bytes(content)
    for source in (path, path.parent)[: 1 if name == "logo.png" else 2]:
        with refused(rf"{name}[\s\S]*{tool}"):
            load_plan(recipe_for(str(source), tmp_path / "out"))

    assert names(path, reader="text") == [name]


def test_the_work_grows_as_the_number_of_nested_folders(tmp_path, monkeypatch):
    calls = Counter()

    def counted(name):
        original = getattr(os, name)

        def call(*words, **keys):
            calls[name] += 1
            return original(*words, **keys)

        monkeypatch.setattr(os, name, call)

    for count in (40, 80):
        write(tmp_path / f"{count}", *("d/" * depth + "a.txt" for depth in range(1, count + 1)))
    for name in ("stat", "lstat", "readlink", "open", "scandir"):
        counted(name)
    found = []
    for folder in (tmp_path / "40", tmp_path / "80"):
        calls.clear()
        files = source_files([InputEntry(path=str(folder))], tmp_path / "out")
        found.append((len(files), calls.total()))

    (half, work), (whole, more) = found
    assert whole == 2 * half == 80
    assert more < 2.5 * work


@pytest.mark.parametrize(
    ("target", "count"), [("a.jsonl", 0), ("sub", 0), ("../out", 1), ("../out/b.jsonl", 1)]
)
def test_links_that_leave_the_folder_are_read_and_counted(tmp_path, target, count):
    for folder in ("in/sub", "out"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "in/a.jsonl").touch()
    (tmp_path / "out/b.jsonl").touch()
    (tmp_path / "in/linked").symlink_to(target)
    files, counts = list_inputs([InputEntry(path=str(tmp_path / "in"), reader="jsonl")])

    assert counts[LINKS_OUT] == count
    assert len(files) == (1 if target == "sub" else 2)
