"""No kernel gives other bytes: each objective has its golden ones, whose own tests compare them with plain loops."""

import json

import pytest

from tests.pipeline.corrupt.objectives.golden import GOLDEN, digest

STORED = json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STORED)
def test_kernels_leave_the_bytes_of_every_objective(name):
    assert digest(name) == STORED[name]["sha256"]
