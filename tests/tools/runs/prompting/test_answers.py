"""Labels by scores that are known, and prompts that do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor

from clozeline.configuration.config import validate
from clozeline.tools.runs.prompting.answers import answer_rows
from clozeline.tools.runs.prompting.rows import Demonstrations, PromptRow
from clozeline.tools.runs.prompting.scorers import Candidate
from clozeline.tools.runs.prompting.template import Prompt, Template

PLAIN: dict[str, Any] = {
    "example": "{text} is{label}", "separator": " ; ", "labels": {"a": [" x", " xyz"], "b": [" yy"]}, "null": "-",
}  # fmt: skip


def template(**changes: Any) -> Template:
    found: Template = validate(Template, PLAIN | changes, "test")
    return found


class Letters:
    """Every letter is a token; each of a word has a log-probability that its prompt's first letter tells."""

    def candidate(self, prompt: Prompt, word: str) -> Candidate:
        ids = tuple(map(ord, prompt.before + word))
        return Candidate(ids, tuple(range(len(prompt.before) + 1, len(ids))))

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        weights = {"p": {"x": -1.0, "y": -0.7, "z": -0.5}, "-": {"x": -0.1, "y": -0.6, "z": -0.5}}
        found = []
        for one in candidates:
            of = weights["-" if chr(one.ids[0]) == "-" else "p"]
            found.append(torch.tensor([of[chr(one.ids[place])] for place in one.positions], dtype=torch.float64))
        return found


def row(text: str, label: str = "a") -> PromptRow:
    return PromptRow(crc32(text.encode()), {"text": text}, label)


def none(_: PromptRow) -> list[PromptRow]:
    return []


@pytest.mark.parametrize(
    ("normalise", "words"),
    [
        ("sum", ([-1.0, -2.2], [-1.4])),
        ("mean", ([-1.0, -2.2 / 3], [-0.7])),
        ("per_byte", ([-1.0, -2.2 / 3], [-0.7])),
        ("pmi", ([-0.9, -2.2 + 1.2], [-1.4 + 1.2])),
    ],
    ids=["sum", "mean", "per_byte", "pmi"],
)
def test_scores_of_labels(normalise: Any, words: tuple[list[float], ...]) -> None:
    (found,) = answer_rows([row("page")], template(), none, Letters(), 99, normalise)
    assert found.scores == pytest.approx([math.log(sum(map(math.exp, own))) for own in words])
    (found,) = answer_rows([row("page")], template(words="mean"), none, Letters(), 99, normalise)
    assert found.scores == pytest.approx([sum(own) / len(own) for own in words])


def test_bytes_are_those_of_utf_8_without_blanks() -> None:
    class Alike(Letters):
        def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
            return [torch.full((1,), -6.0, dtype=torch.float64) for _ in candidates]

    (found,) = answer_rows([row("p")], template(labels={"a": [" é"], "b": [" abc"]}), none, Alike(), 99, "per_byte")
    assert found.scores == (-3.0, -2.0)
    (found,) = answer_rows([row("p")], template(labels={"a": ["é"], "b": ["abc"]}), none, Alike(), 99, "per_byte")
    assert found.scores == (-3.0, -2.0)
    (tied,) = answer_rows([row("p")], template(labels={"a": [" x"], "b": [" y"]}), none, Alike(), 99)
    assert (tied.is_tied, tied.best) == (True, 0)


@pytest.mark.parametrize("window", range(9, 40))
def test_the_oldest_demonstrations_are_left_out_and_the_row_never_is_cut(window: int) -> None:
    """`page is xyz` has 11 letters, each demonstration before it 9 more: `oldest is x ; `, and the last one."""
    shown = [row("o1"), row("m2"), row("n3")]
    (found,) = answer_rows([row("page")], template(), lambda _: shown, Letters(), window)
    whole = len("page is xyz")
    room = max(0, min(3, (window - whole) // len("o1 is x ; ")))
    assert found.dropped == 3 - room
    assert found.demonstrations == tuple(one.uid for one in shown[3 - room :])
    assert bool(found.scores) == (window >= whole)


def test_demonstrations_of_a_pool_go_before_the_row() -> None:
    pool = [PromptRow(number, {"text": f"p{number}"}, "ab"[number % 2]) for number in range(9)]
    (found,) = answer_rows([row("page")], template(), Demonstrations(pool, 4, "balanced", 0).of, Letters(), 999)
    assert len(set(found.demonstrations)) == 4
    assert sum(uid % 2 for uid in found.demonstrations) == 2
