from __future__ import annotations

import os
from pathlib import Path

import dill
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.slurm_task import main as run_task


class Touch:
    """A pickle that would run code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_others_can_write_is_not_read(tmp_path):
    file = tmp_path / "executor.pik"
    file.write_bytes(dill.dumps(Touch(tmp_path / "ran")))
    for mode in (0o660, 0o644, 0o602):
        file.chmod(mode)
        with pytest.raises(IntegrityError, match="it can hold any code, and is not read"):
            run_task([str(file)])
    assert not (tmp_path / "ran").exists()
    file.chmod(0o600)
    with pytest.raises(IntegrityError, match="holds no executor"):
        run_task([str(file)])
    assert (tmp_path / "ran").exists()  # the check above is what kept it from running
