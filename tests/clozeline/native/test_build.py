"""Compiling: the library repeats the hash of its sources, and a failure leaves the previous library."""

import ctypes
import shutil
import subprocess

import pytest

from clozeline.native import build

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the smallest module."""
    for name in ("module.cpp", "module.h"):
        shutil.copy(build.FOLDER / name, tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libnative.so")
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


@needs_compiler
def test_the_library_repeats_the_hash_of_its_sources(folder):
    sources = ctypes.CDLL(str(build.build())).clozeline_sources
    sources.restype = ctypes.c_char_p
    assert sources().decode() == build.source_hash()
    (folder / "more.h").write_text("// another source\n")
    assert sources().decode() != build.source_hash()


@needs_compiler
def test_a_failure_leaves_the_previous_library_and_says_why(folder):
    before = build.build().read_bytes()
    (folder / "broken.cpp").write_text("this is no C++\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        build.build()
    assert "broken.cpp" in failed.value.stderr
    assert build.LIBRARY.read_bytes() == before
    assert sorted(path.suffix for path in folder.iterdir()) == [".cpp", ".cpp", ".h", ".so"], "no temporary folder"


def test_no_compiler_is_an_os_error(folder, monkeypatch):
    monkeypatch.setenv("CXX", str(folder / "none"))
    with pytest.raises(FileNotFoundError):
        build.build()
