"""Files that are whole or absent, their locks and their temporary remains."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import xxhash

from clozeline import files
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import (
    choose_page_path,
    file_hash,
    is_replaceable,
    open_regular,
    open_unlinked,
    process_start,
    publish,
    publish_json,
    publish_yaml,
    read_object,
    read_text,
    replacing,
    still_runs,
    sweep,
    writing,
)
from clozeline.report.html_page import page
from clozeline.report.views import Section


def test_publish_leaves_nothing_behind_on_error(tmp_path):
    def write_and_fail():
        with publish(tmp_path / "a.txt") as path:
            path.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_and_fail()

    assert list(tmp_path.iterdir()) == []

    publish_json(tmp_path / "b.json", {"b": 1, "a": 2})
    content = (tmp_path / "b.json").read_bytes()

    assert content.index(b'"a"') < content.index(b'"b"')
    assert file_hash(tmp_path / "b.json") == xxhash.xxh3_128_hexdigest(content)

    publish_yaml(tmp_path / "c.yaml", {"path": "https://h/x?key=secret"})
    assert (tmp_path / "c.yaml").stat().st_mode & 0o777 == 0o600

    with (
        pytest.raises(StorageError, match=r"cannot write .*/b\.json/page: "),
        publish(tmp_path / "b.json" / "page"),
    ):
        pass


@pytest.mark.parametrize("durable", [True, False])
def test_a_replaced_file_is_the_old_one_until_it_is_the_new_one(tmp_path, monkeypatch, durable):
    """Content is forced to the disk before the name, and the name after it.

    Neither where durability is not asked.
    """
    path = tmp_path / "a"
    events = []
    path.write_text("old")
    monkeypatch.setattr(files, "sync", lambda what: events.append(("sync", what == tmp_path)))
    real = Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (events.append(("rename", to == path)), real(self, to))[1]
    )
    with replacing(path, durable=durable) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert events == (
        [("sync", False), ("rename", True), ("sync", True)] if durable else [("rename", True)]
    )
    assert list(tmp_path.iterdir()) == [path]


def test_a_sync_reaches_the_disk(tmp_path, monkeypatch):
    """Of a file and of a folder; the tests put a stand-in there, which does not wait."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path):
        files.sync(path)

    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_sweep_removes_what_the_dead_left_and_nothing_else(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()

    with replacing(tmp_path / "a") as temporary:
        left = temporary.with_name(temporary.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
        old = tmp_path / "a.00000000-2-0123abcd.tmp"
        kept = [temporary, tmp_path / "b.00000000-1-0123abcd.tmp"]
        kept += [tmp_path / name for name in ("notes.tmp", "a.b.tmp", "x.00000000-2-ff.tmp", "t")]
        for path in (left, old, *kept):
            path.touch()
        for path in (left, old, *kept[2:]):
            os.utime(path, (0, 0))
        sweep(tmp_path)

        assert {*tmp_path.iterdir()} == {*kept}


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        (lambda path: None, True),
        (lambda path: path.write_text(page(Section("a", []))), True),
        (lambda path: path.write_text("<html>my own report</html>"), False),
        (lambda path: path.write_bytes(b""), False),
        (lambda path: path.symlink_to(path.with_name("gone")), False),
        (lambda path: path.symlink_to("/etc/hostname"), False),
        (lambda path: path.mkdir(), False),
        (os.mkfifo, False),
    ],
)
def test_only_a_page_of_ours_is_replaced(tmp_path, put, expected):
    put(tmp_path / "report.html")
    assert is_replaceable(tmp_path / "report.html") is expected
    path = choose_page_path(tmp_path / "report.html")
    assert path.name == ("report.html" if expected else "clozeline-report.html")


def set_clock(proc, seconds, monkeypatch):
    """Show this process as the kernel does after the clock was set: the time of the machine's start
    has moved."""
    boot = int(psutil.boot_time())
    (proc / str(os.getpid())).mkdir(parents=True)
    (proc / "stat").write_text(
        Path("/proc/stat").read_text().replace(f"btime {boot}", f"btime {boot + seconds}")
    )
    (proc / str(os.getpid()) / "stat").write_text(Path("/proc/self/stat").read_text())
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))


def test_a_process_is_known_by_its_start():
    start = process_start(os.getpid())
    assert still_runs(os.getpid(), start)
    assert not still_runs(os.getpid(), start - 5), "a later process of the same number"
    assert not still_runs(1, start), "none of that number"


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.ENOSPC, "No space left on device; free some space, then run the same command again"),
        (
            errno.EROFS,
            "Read-only file system; make it writable, or choose another folder with output=DIR",
        ),
        (errno.EIO, "Input/output error; run the same command again"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_with_the_way_out(tmp_path, number, way_out):
    with (
        pytest.raises(StorageError, match=f"cannot write .*/a.json: {way_out}"),
        publish(tmp_path / "a.json"),
    ):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), "a/set"),
        (("a/set/x",), "a/set/x"),
        (("a",), "a/set"),
        (("texts", None, "a/set/x"), "a/set/x"),
        (("a/.hidden/x", None, "texts"), "a/set"),
        (("a/setting",), ""),
        (("texts", None, "other"), ""),
    ],
)
def test_an_error_of_a_file_that_was_read_is_not_one_of_the_output(names, told):
    """Copies and renames name two files."""
    error = OSError(errno.EIO, "broken", *names)

    with (
        pytest.raises(StorageError if told else OSError) as caught,
        writing(Path("a/set"), Path("a/.hidden")),
    ):
        raise error

    assert caught.value is error if not told else f"cannot write {told}:" in str(caught.value)


@pytest.mark.parametrize("names", [(), ("{}",), ("source", None, "{}")])
def test_a_system_error_names_the_file_and_not_the_temporary_one(tmp_path, names):
    def fail(path):
        given = (name and name.format(path) for name in names)
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), *given)

    with (
        pytest.raises(OSError, match="File too large") as caught,
        replacing(tmp_path / "a") as path,
    ):
        fail(path)

    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "a"), None)


@pytest.mark.parametrize(
    "use",
    [
        open_regular,
        read_text,
        file_hash,
        lambda path: open_unlinked(path, "ab"),
        lambda path: open_unlinked(path, "a+b"),
        lambda path: open_unlinked(path, "w"),
    ],
)
@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "a pipe"), (lambda path: path.symlink_to("/dev/zero"), "a device")],
)
def test_what_is_no_file_is_never_waited_for(tmp_path, use, make, kind):
    make(path := tmp_path / "special.jsonl")
    with pytest.raises(FileExistsError, match=rf"got {kind}.*special\.jsonl"):
        use(path)


OBJECT = '{"é": 1}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_text(tmp_path, encoding):
    (tmp_path / "a.json").write_text(OBJECT, encoding=encoding)
    assert read_text(tmp_path / "a.json") == OBJECT


@pytest.mark.parametrize(
    "content",
    [
        OBJECT.encode("utf-16"),
        OBJECT.encode("utf-8-sig"),
        OBJECT.encode("latin-1"),
        b"[1]",
        b"",
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_json_object_is_named(tmp_path, content):
    assert read_object(tmp_path / "missing.json") == {}
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"a\.json"):
        read_object(tmp_path / "a.json")
