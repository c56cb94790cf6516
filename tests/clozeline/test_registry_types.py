"""mypy finds an algorithm whose methods have other parameters, and a caller that expects another
interface."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """
from collections.abc import Sequence
from typing import Any

import torch

from clozeline.pipeline.clean.extractors import Extractor
from clozeline.pipeline.clean.filters import KEEP, Filter, Verdict
from clozeline.pipeline.corrupt.objectives.masked_lm import MaskedLM
from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import FILTERS, OBJECTIVES
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.train.optim.optimizers.adamw import AdamW
from clozeline.train.registries import OPTIMIZERS


class GoodFilter(Filter):
    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        return KEEP


class GoodOptimizer(AdamW):
    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        return super().build(groups)


class BadObjective(MaskedLM):
    def corrupt(self, text: str) -> str:  # BAD
        return text


class BadOptimizer(AdamW):
    def build(self, rate: float) -> torch.optim.Optimizer:  # BAD
        return torch.optim.SGD([], rate)


class BadFilter(Filter):
    def judge(self, text: str) -> bool:  # BAD
        return True


class BadExtractor(Extractor):
    def extract(self, html: str, url: str) -> str:  # BAD
        return html

    def extract_leniently(self, html: str) -> str:
        return html


objective: Objective = OBJECTIVES.build("masked_lm")
label: str = objective.label
wrong: Objective = FILTERS.build("url")  # BAD
OPTIMIZERS.resolve("adamw").build().build(0.1)  # BAD
FILTERS.load_class("url").judges  # BAD
"""


@pytest.mark.slow
def test_mypy_checks_the_signatures_of_algorithms_and_their_callers(tmp_path):
    """A minute where nothing of the product was checked before, some seconds after `make check`."""
    package = tmp_path / "mylab"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "algorithms.py").write_text(MODULE)
    expected = {
        number for number, line in enumerate(MODULE.split("\n"), 1) if line.endswith("# BAD")
    }
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--hide-error-context",
        "-p",
        "mylab",
    ]

    environment = {**os.environ, "MYPYPATH": str(tmp_path)}
    found = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = re.findall(r"algorithms\.py:(\d+): error", found.stdout)

    assert {int(line) for line in lines} == expected, found.stdout + found.stderr
