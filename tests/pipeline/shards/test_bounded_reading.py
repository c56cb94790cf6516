"""Files of a set that are not what they should be: pipes, devices, and lists without end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from clozeline.pipeline.shards import ManifestError, open_shards
from clozeline.pipeline.shards.manifest import check_entries, read_regular
from tests.shard_sets import toy_set

KINDS = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["manifest.json", "index.arrow", "quarantine.json"])
def test_what_is_not_a_regular_file_is_refused(tmp_path, name, kind):
    """A pipe without a writer would be waited for, and a device read until memory is full."""
    toy_set(tmp_path, [9, 4])
    (tmp_path / name).unlink(missing_ok=True)
    KINDS[kind](tmp_path / name)
    with pytest.raises(ManifestError, match=rf"/{name}: expected a regular file, got a {kind}; copy"):
        open_shards(tmp_path)


def test_a_large_file_is_not_read(tmp_path, monkeypatch):
    toy_set(tmp_path, [9])
    with (tmp_path / "quarantine.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ManifestError, match=r"quarantine.json: 1099511627776 bytes, at most 67108864 are read"):
        open_shards(tmp_path)
    (tmp_path / "ten").write_bytes(bytes(10))
    assert read_regular(tmp_path / "ten", 10) == bytes(10)
    with pytest.raises(ManifestError, match="10 bytes, at most 9"):
        read_regular(tmp_path / "ten", 9)


def test_entries_are_counted():
    raw = json.dumps(list(range(101))).encode()
    check_entries("here", raw, 100)
    with pytest.raises(ManifestError, match="here: about 100 entries, at most 99"):
        check_entries("here", raw, 99)


HOSTILE = """
import resource, sys
from pathlib import Path
from clozeline.pipeline.shards import ManifestError, open_shards
folder, name, raw = Path(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
(folder / name).write_bytes(raw)
del raw
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    open_shards(folder)
except ManifestError as error:
    assert len(str(error)) < 2000, len(str(error))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("name", ["manifest.json", "quarantine.json"])
@pytest.mark.parametrize("raw", ["b'[' + b'0,' * (31 << 20) + b'0]'", "b'[' + b'{},' * (1 << 20) + b'0]'"])
def test_a_list_of_many_entries_takes_no_memory(tmp_path, name, raw):
    """62 MB of JSON with 32 million entries took gigabytes, a validation error for each."""
    toy_set(tmp_path, [9])
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path), name, raw], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300, "MiB beside those of the file"


def test_a_list_of_many_entries_in_a_store_is_refused_by_its_url(memory):
    fsspec.filesystem("memory").pipe_file(f"{memory.removeprefix('memory:/')}/manifest.json", b"[" + b"0," * (2 << 20))
    with pytest.raises(ManifestError, match=rf"^{memory}/manifest.json: about 2097152 entries"):
        open_shards(memory)
