"""Files of an export in a store: all of them, or none."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.tools.shards.rewriting.output_folder import new_target


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


def test_a_failed_write_is_tried_again_and_a_short_one_is_an_error(system, monkeypatch):
    kind = type(system)
    written = kind.put_file
    faults = [OSError("reset"), OSError("reset")]

    def fail(self, path, key, **options):
        if faults:
            raise faults.pop()
        written(self, path, key, **options)

    monkeypatch.setattr(kind, "put_file", fail)
    write("memory://export/a", one="1")
    assert not faults
    faults[:] = [OSError("refused")] * 9
    with pytest.raises(StorageError, match=r"b/one: cannot be written \(refused\)"):
        write("memory://export/b", one="1")

    def cut(self, path, key, **options):
        self.pipe_file(key, Path(path).read_bytes()[:-1])

    monkeypatch.setattr(kind, "put_file", cut)
    with pytest.raises(StorageError, match="expected 3 bytes after writing it, got 2"):
        write("memory://export/c", one="123")
    assert not system.exists("/export/c/one")


def test_a_web_server_takes_no_files():
    with pytest.raises((ConfigurationError, StorageError), match="a web server takes no files"):
        write("http://127.0.0.1:9/a", one="1")
