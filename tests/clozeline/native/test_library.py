"""The compiled module: it repeats the hash of its sources, is used where it fits, and its absence
is told."""

import ctypes
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from clozeline.native import build, library
from clozeline.native.build import LIBRARY
from clozeline.native.library import Function, array_of, is_available, missing_note, numpy_only

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@needs_compiler
def test_the_library_repeats_the_hash_of_its_sources(tmp_path, monkeypatch):
    for name in ("module.cpp", "module.h"):
        shutil.copy(build.FOLDER / name, tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libnative.so")
    monkeypatch.delenv("CXX", raising=False)
    sources = ctypes.CDLL(str(build.build())).clozeline_sources
    sources.restype = ctypes.c_char_p

    assert sources().decode() == build.source_hash()

    (tmp_path / "more.h").write_text("// another source\n")

    assert sources().decode() != build.source_hash()


needs_module = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
_SHOW = (
    "from clozeline.native.library import is_available, missing_note\nprint(is_available(), "
    "missing_note())"
)


@pytest.fixture
def fresh(monkeypatch):
    """Open the library again inside the test, and again after it."""
    monkeypatch.delenv(library.SWITCH, raising=False)
    library._open.cache_clear()
    yield
    monkeypatch.undo()
    library._open.cache_clear()


def test_the_variable_and_the_block_disable_it():
    environment = os.environ | {library.SWITCH: "0"}
    done = subprocess.run(
        [sys.executable, "-c", _SHOW], env=environment, capture_output=True, text=True, check=True
    )
    expected = "compiled module not in use (disabled by CLOZELINE_NATIVE=0): same results, slower"

    assert done.stdout.strip() == f"False {expected}"

    before = is_available()
    with numpy_only(), numpy_only():
        assert not is_available()

    assert is_available() == before


@pytest.mark.usefixtures("fresh")
def test_a_missing_or_damaged_library_is_told(tmp_path, monkeypatch):
    path = tmp_path / "libnative.so"
    monkeypatch.setattr(library, "LIBRARY", path)

    assert f"{path} is missing): same results, slower; a C++ compiler" in str(missing_note())

    path.write_bytes(b"no library")
    library._open.cache_clear()

    assert str(path) in str(missing_note())
    assert not is_available()


@needs_module
@pytest.mark.usefixtures("fresh")
def test_a_library_of_other_sources_is_not_used(monkeypatch):
    assert is_available()

    library._open.cache_clear()
    monkeypatch.setattr(library, "source_hash", lambda: "0" * 16)

    assert f"{LIBRARY} was compiled from other sources" in str(missing_note())

    with pytest.raises(RuntimeError, match="compiled from other sources"):
        Function("clozeline_sources")()


@needs_module
def test_arrays_of_another_type_or_layout_never_reach_it():
    band_keys = Function(
        "clozeline_band_keys", array_of("u8"), *[ctypes.c_int64] * 3, array_of("u8")
    )
    for signatures in (
        np.zeros(4, "i8"),
        np.zeros(4, ">u8"),
        np.zeros(8, "u8")[::2],
    ):
        with pytest.raises(ctypes.ArgumentError, match="expected a contiguous array of uint64"):
            band_keys(signatures, 1, 2, 2, np.zeros(2, "u8"))
