"""The cache of a node: shared without locks, bounded, never believed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.shards.block_cache import BlockCache


def content(number: int) -> bytes:
    return bytes([number]) * 100


def kept(folder: Path) -> int:
    """Bytes of all files, temporary ones too."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_two_caches_of_one_folder_keep_the_bound(tmp_path: Path) -> None:
    caches = [BlockCache(tmp_path, "set", 300) for _ in range(2)]
    for number in range(40):
        caches[number % 2].put(0, number, content(number))
        assert kept(tmp_path) <= 300
        assert caches[1 - number % 2].get(0, number) == (content(number) if number < 3 else None)
    assert caches[0].evicted + caches[1].evicted == 0


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("ranks", [1, 4])
def test_the_share_of_hits_is_the_share_of_the_data_that_fits(tmp_path: Path, share: float, ranks: int) -> None:
    """Epochs are permutations: evicting what was used longest ago would keep what was just read, 2 % and 15 %."""
    blocks = 200
    caches = [BlockCache(tmp_path, "set", int(share * blocks) * 100) for _ in range(ranks)]
    generator = np.random.Generator(np.random.PCG64(1))
    for epoch in range(4):
        hits = 0
        for place, block in enumerate(generator.permutation(blocks).tolist()):
            cache = caches[place % ranks]
            found = cache.get(0, block)
            if found is None:
                cache.put(0, block, content(block))
            hits += found == content(block)
        assert hits == (share * blocks if epoch else 0)
    assert kept(tmp_path) == share * blocks * 100


def test_room_is_noticed_again(tmp_path: Path) -> None:
    """At once after an entry that was wrong, and after some blocks where another process made it."""
    cache = BlockCache(tmp_path, "set", 300)
    for number in range(4):
        cache.put(0, number, content(number))
    assert cache.get(0, 3) is None
    cache.drop(0, 0)
    cache.put(0, 3, content(3))
    assert cache.get(0, 3) == content(3)
    cache.put(0, 4, content(4))
    (tmp_path / "clozeline" / "set" / "0" / "3").unlink()
    for number in range(5, 30):
        cache.put(0, number, content(number))
    assert kept(tmp_path) == 300
    assert cache.evicted == 0


def test_a_lower_bound_than_before_is_kept(tmp_path: Path) -> None:
    large = BlockCache(tmp_path, "set", 1000)
    for number in range(10):
        large.put(0, number, content(number))
    small = BlockCache(tmp_path, "set", 300)
    small.put(0, 10, content(10))
    assert kept(tmp_path) == 300


def test_the_bound_is_for_all_sets_and_all_processes_of_a_large_cache(tmp_path: Path) -> None:
    """Many files are not scanned at each write; still no writer may fill the room as if it were the only one."""
    caches = [BlockCache(tmp_path, name, 40_000) for name in ("one", "two", "three", "four")]
    for number in range(1000):
        caches[number % 4].put(number % 7, number, content(number % 256))
        if number % 50 == 0:
            assert kept(tmp_path) <= 40_000
    assert 0.85 * 40_000 <= kept(tmp_path) <= 40_000


def test_what_other_runs_left_makes_room_oldest_first(tmp_path: Path) -> None:
    """Their sets, and temporary files of killed processes; a set that is in use stays."""
    other = BlockCache(tmp_path, "other", 400)
    for number in range(4):
        other.put(0, number, content(number))
    for number, age in ((0, 2), (1, 1), (2, 3)):
        os.utime(tmp_path / "clozeline" / "other" / "0" / str(number), (age, age))
    (killed := tmp_path / "clozeline" / "set" / "0" / "9.x.tmp").parent.mkdir(parents=True)
    killed.write_bytes(bytes(50))
    os.utime(killed, (9, 9))
    cache = BlockCache(tmp_path, "set", 400)
    future = time.time_ns() + 10**9
    os.utime(tmp_path / "clozeline" / "other" / "0" / "3", ns=(future, future))
    left = []
    for number in range(5):
        cache.put(0, number, content(number))
        left.append([block for block in range(4) if (tmp_path / "clozeline" / "other" / "0" / str(block)).exists()])
    assert left == [[2, 3], [3], [3], [3], [3]], "the first one takes the room of block 1 and, for the rest, of block 0"
    assert not killed.exists()
    assert [cache.get(0, number) is not None for number in range(5)] == [True, True, True, False, False]


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    """A home folder may be named; what is oldest there must not be evicted."""
    other = tmp_path / "pictures" / "2009" / "summer" / "1.jpeg"
    other.parent.mkdir(parents=True)
    for path in (other, tmp_path / "notes", other.parent.parent / "list"):
        path.write_bytes(bytes(1000))
        os.utime(path, (1, 1))
    cache = BlockCache(tmp_path, "set", 300)
    for number in range(9):
        cache.put(0, number, content(number))
    assert kept(tmp_path) == 3000 + 300


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, "set", 99)
    cache.put(0, 0, content(0))
    assert (cache.get(0, 0), list(tmp_path.iterdir())) == (None, [])


@pytest.mark.parametrize("half", [False, True])
def test_a_full_disk_ends_the_caching_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], half: bool
) -> None:
    cache = BlockCache(tmp_path, "set", 1000)
    cache.put(0, 0, content(0))
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if half:
            real(self, data[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for number in range(3):
        cache.put(0, number + 1, content(number + 1))
    assert capsys.readouterr().err.count("blocks are no longer cached") == 1
    assert kept(tmp_path) == 100
    assert cache.get(0, 0) == content(0)


def test_a_cache_that_may_only_be_read_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = BlockCache(tmp_path, "set", 1000)
    cache.put(0, 0, content(0))

    def refused(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    for owner, name in ((os, "utime"), (Path, "unlink"), (Path, "write_bytes"), (Path, "mkdir")):
        monkeypatch.setattr(owner, name, refused)
    assert cache.get(0, 0) == content(0)
    cache.drop(0, 0)
    cache.put(0, 1, content(1))
    assert (cache.get(0, 0), cache.get(0, 1)) == (content(0), None)


def test_a_folder_that_is_a_file_is_only_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").write_bytes(b"")
    cache = BlockCache(tmp_path / "cache", "set", 1000)
    cache.put(0, 0, content(0))
    cache.drop(0, 0)
    assert cache.get(0, 0) is None
    assert "no longer cached" in capsys.readouterr().err


def test_a_folder_that_is_removed_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = BlockCache(tmp_path / "cache", "set", 1000)
    cache.put(0, 0, content(0))
    shutil.rmtree(tmp_path / "cache")
    assert cache.get(0, 0) is None
    cache.put(0, 1, content(1))
    assert cache.get(0, 1) == content(1)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("vanishes", ["the new file", "the folder"])
def test_what_another_process_removes_in_the_middle_costs_one_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], vanishes: str
) -> None:
    """An eviction elsewhere, or a `rm -r`, between the writing of a file and its renaming."""
    cache, real = BlockCache(tmp_path, "set", 1000), Path.replace

    def remove_first(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", real)
        self.unlink() if vanishes == "the new file" else shutil.rmtree(tmp_path / "clozeline")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", remove_first)
    cache.put(0, 0, content(0))
    assert cache.get(0, 0) is None
    cache.put(0, 1, content(1))
    assert cache.get(0, 1) == content(1)
    assert not capsys.readouterr().err


WRITER = """
import os, sys
from pathlib import Path
from clozeline.pipeline.shards.block_cache import BlockCache
folder, point, die_at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
calls = 0
def dying(name, half=False):
    real = getattr(Path, name)
    def patched(self, *arguments, **options):
        global calls
        if half and calls + 1 == die_at:
            real(self, arguments[0][:50])
            os._exit(9)
        found = real(self, *arguments, **options)
        calls += 1
        if calls == die_at:
            os._exit(9)
        return found
    setattr(Path, name, patched)
if point != "never":
    dying(*{"half written": ("write_bytes", True), "written": ("write_bytes",), "renamed": ("replace",),
            "evicted": ("unlink",), "read": ("read_bytes",)}[point])
cache = BlockCache(folder, "set", 300)
for number in range(60):
    block = number * number % 7
    found = cache.get(0, block)
    assert found is None or found == bytes([block]) * 100, found
    if number % 3 == 0:
        cache.drop(0, block)
    cache.put(0, block, bytes([block]) * 100)
"""


def test_processes_share_a_cache_and_may_be_killed_in_it(tmp_path: Path) -> None:
    """Three blocks of room, kills at every point: never a wrong byte, and the bound holds again afterwards."""

    def run(*points: str) -> None:
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        started = [subprocess.Popen([*command, point, "3"], stderr=subprocess.PIPE, text=True) for point in points]
        errors = [process.communicate()[1] for process in started]
        assert [process.returncode for process in started] == [0 if point == "never" else 9 for point in points], errors
        assert not any(errors)

    run("half written", "written", "renamed", "evicted", "read", "never")
    run("never", "never")
    assert kept(tmp_path) <= 300, "what the killed ones left was evicted like anything else"
    assert {path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == {100}
