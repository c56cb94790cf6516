"""Whatever goes wrong, a tool that writes leaves all or nothing, on a disk and in a store; quarantine stays."""

import json
from pathlib import Path

import fsspec
import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.shards import export_webdataset, repack_shards
from clozeline.tools.shards.rewriting import output_folder
from clozeline.tools.shards.rewriting.output_folder import new_target
from tests.shard_sets import toy_set

WRITERS = [
    (repack_shards, ["--container", "tar"]),
    (export_webdataset, ["--rows", "2"]),
]


def quarantine(folder, *blocks):
    """Put blocks of shards, by their numbers, in quarantine."""
    names = sorted(path.name for path in folder.glob("shard-*"))
    entries = [{"shard": names[shard], "block": block, "reason": f"reason {shard}"} for shard, block in blocks]
    publish_quarantine(folder, entries)


def break_off_after(monkeypatch, files, error):
    """Let the `files`-th file that is published, and all after it, fail."""
    published = output_folder.Output.file
    done = []

    def file(self, relative):
        done.append(relative)
        if len(done) >= files:
            raise error
        return published(self, relative)

    monkeypatch.setattr(output_folder.Output, "file", file)


@pytest.mark.parametrize(("tool", "options"), WRITERS)
@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 74), (KeyboardInterrupt(), 130)])
def test_nothing_half_written_is_left(tmp_path, monkeypatch, capsys, tool, options, error, code):
    source = toy_set(tmp_path / "set", [5, 3])
    break_off_after(monkeypatch, 2, error)
    output = tmp_path / "new" / "folder"
    assert tool.main([str(source.path), "--output", str(output), *options]) == code
    assert not output.parent.exists()
    output.mkdir(parents=True)
    (output / "mine.txt").touch()
    assert tool.main([str(source.path), "--output", str(output), *options]) == code
    assert [path.name for path in output.iterdir()] == ["mine.txt"]
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    monkeypatch.undo()
    assert tool.main([str(source.path), "--output", str(output), *options]) == 0
    assert (output / "mine.txt").exists()


@pytest.mark.parametrize(("tool", "options"), WRITERS)
def test_sets_in_stores_and_empty_paths_are_refused(tmp_path, capsys, tool, options):
    source = str(toy_set(tmp_path / "set", [5]).path)
    assert tool.main([source, "--output", "", *options]) == 64
    assert "expected a path, got nothing" in capsys.readouterr().err
    if tool is not export_webdataset:
        assert tool.main(["s3://bucket/set", "--output", str(tmp_path / "out"), *options]) == 64
        assert "s3://bucket/set: expected a local folder" in capsys.readouterr().err


def test_quarantine_is_kept(tmp_path):
    first = toy_set(tmp_path / "first", [9, 6])
    quarantine(tmp_path / "first", (0, 2), (1, 0))
    repack_shards.repack(open_shards(first.path), tmp_path / "tar", container="tar", codec="zstd")
    again = open_shards(tmp_path / "tar")
    assert again.quarantined == {2, 3}
    assert json.loads((tmp_path / "tar" / "quarantine.json").read_text())["blocks"][1] == {
        "shard": "shard-00001-of-00002.tar", "block": 0, "reason": "reason 1",
    }  # fmt: skip


def test_blocks_in_quarantine_keep_their_rows(tmp_path, capsys):
    source = toy_set(tmp_path / "set", [9])
    quarantine(tmp_path / "set", (0, 1))
    options = [str(source.path), "--output", str(tmp_path / "out"), "--block-rows", "3"]
    assert repack_shards.main(options) == 64
    assert "1 block in quarantine, of 4 rows each" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rows_in_quarantine_are_not_exported_nor_read(tmp_path, capsys):
    source = toy_set(tmp_path / "set", [9, 2])
    quarantine(tmp_path / "set", (0, 1))
    index = source.index
    with source.shard_path(0).open("rb+") as file:  # it need not even be readable
        file.seek(int(index.offset[1]) + int(index.length[1]) // 2)
        file.write(b"damage")
    assert export_webdataset.main([str(source.path), "--output", str(tmp_path / "out")]) == 0
    assert "7 rows in 1 tar," in (out := capsys.readouterr().out)
    assert "4 in quarantine dropped" in out
    assert json.loads((tmp_path / "out" / "export.json").read_text())["rows_in_quarantine"] == 4


@pytest.fixture
def system(monkeypatch):
    monkeypatch.setattr("clozeline.pipeline.shards.store._LONGEST_PAUSE_S", 0.0)
    system = fsspec.filesystem("memory")
    yield system
    if system.exists("/export"):
        system.rm("/export", recursive=True)


def write(url, **files):
    with new_target(Path(url)) as target:
        for name, content in files.items():
            with target.file(name) as path:
                path.write_text(content)


def test_files_are_written_and_a_second_export_is_refused(system):
    write("memory://export/a", one="1", two="22")
    assert {name: system.cat(f"/export/a/{name}") for name in ("one", "two")} == {"one": b"1", "two": b"22"}
    with pytest.raises(ConfigurationError, match="holds files already; choose another folder of the store"):
        write("memory://export/a", one="1")


def test_an_error_leaves_no_file(system):
    with pytest.raises(TypeError):
        write("memory://export/a", one="1", two=None)
    assert not system.exists("/export/a/one")


def test_a_web_server_takes_no_files():
    with pytest.raises((ConfigurationError, StorageError), match="a web server takes no files"):
        write("http://127.0.0.1:9/a", one="1")
