"""Profiles of a few steps: what is written, and that training does not notice."""

import json

import torch

from clozeline.train.logs.profiling import Profiler
from tests.train.synthetic import tiny


def profiled(folder, first, steps):
    """Events of a profile of two steps; step N multiplies N pairs of matrices."""
    told = []
    config = tiny(profile={"from": first, "steps": 2}).profile
    profiler = Profiler(config, folder, torch.device("cpu"), lambda event, **_: told.append(event))
    matrix = torch.ones(200, 200)

    for step in steps:
        profiler.begin(step)
        for _ in range(step):
            torch.mm(matrix, matrix)
        profiler.end(step)

    profiler.close()
    return told


def operations(trace):
    return [
        event["name"]
        for event in json.loads(trace.read_text())["traceEvents"]
        if event.get("cat") == "cpu_op"
    ]


def test_a_trace_holds_the_operations_of_its_steps(tmp_path):
    assert profiled(tmp_path, 3, range(1, 7)) == ["profile"]
    assert operations(tmp_path / "trace-00000003.json").count("aten::mm") == 3 + 4


def test_a_trace_that_cannot_be_written_costs_no_step(tmp_path):
    """Its folder is a file."""
    (tmp_path / "run").write_text("a file")
    assert profiled(tmp_path / "run", 1, range(1, 4)) == ["profile_failed"]
