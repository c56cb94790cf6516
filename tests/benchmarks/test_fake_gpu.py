"""The pretended GPU: a recipe of every family trains on it, and it finds what it is there to find."""

import json
import os
import shutil
import subprocess
import sys

from benchmarks.harness import ROOT

import pytest

from clozeline.registry import names
from tests.benchmarks import fake_gpu

EVERY_FAMILY = (
    "bert variant=tiny", "gpt variant=tiny", "t5 variant=tiny", "electra variant=tiny", "xlnet variant=tiny",
    "mobilebert variant=tiny", "elmo variant=tiny", "ulmfit variant=tiny", "tasks/swag", "tinybert variant=task",
)  # fmt: skip
FAULTS = """
import sys, torch
from torch import nn
from tests.benchmarks import fake_gpu
from clozeline.model.layers.layer import FeedForward
from clozeline.model.layers.stack import Stack

(training,) = fake_gpu.configurations(["bert variant=tiny"])
forward, layer = Stack.forward, FeedForward.forward
print(fake_gpu.row(training, compiled=False)["problem"])
Stack.forward = lambda self, x, *more, **named: forward(self, x * int(more[0].max()), *more, **named)
print(fake_gpu.row(training, compiled=False)["problem"])
Stack.forward = lambda self, x, *more, **named: forward(self, x + torch.ones(x.shape[-1]), *more, **named)
print(fake_gpu.row(training, compiled=False)["problem"])
Stack.forward = lambda self, x, *more, **named: forward(self, x + x.mean().cpu(), *more, **named)
print(fake_gpu.row(training, compiled=False)["problem"])
Stack.forward = forward
FeedForward.forward = lambda self, x: nn.functional.linear(x.float(), self.up.weight[: x.shape[-1]].float()).to(x.dtype)
print(fake_gpu.row(training, compiled=False)["problem"])
FeedForward.forward = lambda self, x: (torch._dynamo.graph_break(), layer(self, x))[1]
print(fake_gpu.row(training, compiled=True)["problem"])
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a process with the device."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    return os.environ | fake_gpu.preload(tmp_path_factory.mktemp("device"))


def test_every_family_trains_on_it(environment, tmp_path):
    command = [sys.executable, "-m", "tests.benchmarks.fake_gpu", "--eager", "1", "--json", str(tmp_path / "rows.json")]
    subprocess.run([*command, "--recipes", *EVERY_FAMILY], cwd=ROOT, env=environment, check=True)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == len(EVERY_FAMILY) + 1  # the second row of T5
    assert {row["family"] for row in rows} == set(names("clozeline.model.families"))
    attention = {row["recipe"]: set(row["attention"]) for row in rows}
    assert attention["gpt variant=tiny"] == {"flash"}
    assert attention["electra variant=tiny"] == {"varlen"}
    assert attention["t5 variant=tiny"] == {"mask"}
    assert attention["t5 variant=tiny apart"] == {"mask", "varlen"}  # biased within a side; across, bounds of both


@pytest.mark.slow
def test_it_finds_what_a_gpu_would_stumble_over(environment):
    command = [sys.executable, "-c", FAULTS]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    none, read, devices, copies, wide, breaks = result.stdout.splitlines()
    assert not none
    assert "DataDependentOutputException" in read
    assert "cuda:0 and cpu" in devices
    assert "copies from the device" in copies
    assert "products of weights in fp32: {'mm'" in wide
    assert "graph_break" in breaks or "Unsupported" in breaks


@pytest.mark.slow
def test_every_recipe_trains_on_it_without_graph_breaks(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    assert fake_gpu.run([], tmp_path / "rows.json") == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len([row for row in rows if not row["recipe"].endswith(" apart")]) == len(list(fake_gpu.configurations([])))
