"""The arrays of py3langid's model: one file for all processes, made again where it is damaged."""

import numpy as np
import pytest
from py3langid.langid import MODEL_DIR, MODEL_FILE

from clozeline.pipeline.clean.languages import _model_arrays
from clozeline.pipeline.clean.languages._model_arrays import load_arrays

PACKAGE = MODEL_DIR / MODEL_FILE


def test_the_arrays_of_the_model_are_one_file_for_all_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reads = []
    read = _model_arrays.load_model
    monkeypatch.setattr(_model_arrays, "load_model", lambda path: [reads.append(path), read(path)][1])
    first = load_arrays(PACKAGE)
    (cached,) = (tmp_path / "clozeline").glob("*.npy")
    assert not list((tmp_path / "clozeline").glob("*.tmp"))
    second = load_arrays(PACKAGE)
    assert len(reads) == 1
    assert all(isinstance(array.base, np.memmap) for array in (*first, *second))
    with pytest.raises(ValueError, match="read-only"):
        second.weights[0, 0] = 0
    # a damaged file is made again; a new one, because processes have the old one mapped
    content = cached.read_bytes()
    cached.unlink()
    cached.write_bytes(content[: len(content) // 2])
    third = load_arrays(PACKAGE)
    assert len(reads) == 2
    assert all(np.array_equal(*pair) for pair in zip(second, third, strict=True))


def test_states_out_of_range_are_refused():
    arrays = load_arrays(PACKAGE)
    wrong = {"following": arrays.rows[:0] + 0, "rows": arrays.rows + 256, "outputs": arrays.outputs[1:]}
    for name, array in wrong.items():
        with pytest.raises(ValueError, match=r"out of range|zero-size"):
            arrays._replace(**{name: array}).check()


def test_without_a_cache_folder_the_model_is_read_unshared(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    arrays = load_arrays(PACKAGE)
    assert all(np.array_equal(*pair) for pair in zip(arrays, load_arrays(PACKAGE), strict=True))
