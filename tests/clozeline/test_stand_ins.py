"""Stand-ins: whatever our modules do with a library as they are imported works, and nothing else is replaced."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clozeline.stand_ins import LIBRARIES, asks_for_help, use_stand_ins

_MODULE = """
import sys
from clozeline.stand_ins import StandIn, use_stand_ins
use_stand_ins()
import json
import torch
import pyarrow.compute as pc
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

class Layer(nn.Module):
    limit: Tensor | None = None
    kinds = dict.fromkeys((*torch.dtypes, torch.float32))

    @torch.no_grad()
    def forward(self, x: "Tensor") -> int:
        return 3

class Pair(torch.autograd.Function, dict[str, Tensor]):
    @torch.compile
    def sum(self): return 4

assert Layer.__mro__ == (Layer, object)
assert (Layer().forward(None), Pair().sum(), Pair.__mro__[1]) == (3, 4, dict)
assert isinstance(pc.list_flatten(torch.zeros(2)[0]), StandIn)
assert not isinstance(json, StandIn)
try:
    import torch_scatter
except ModuleNotFoundError as error:
    print(error)
"""


def test_modules_of_ours_can_be_imported_with_stand_ins() -> None:
    done = subprocess.run([sys.executable, "-c", _MODULE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "No module named 'torch_scatter'\n")


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        (["--help"], True),
        (["train", "--config", "a.yaml", "-h"], True),
        (["generate", "run", "help"], False),
        (["generate", "run", "--", "--help"], False),
        ([], False),
    ],
)
def test_only_an_option_asks_for_help(words: list[str], asks: bool) -> None:
    assert asks_for_help(words) is asks


def test_a_library_in_use_keeps_its_content() -> None:
    import pyarrow as pa

    before = list(sys.meta_path)
    use_stand_ins()
    assert sys.meta_path == before
    assert pa.__name__ in LIBRARIES
