"""Labels by scores that are known, prompts that do not fit, and a small model that learns its answers in context."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor

from model.build import Model
from model.config import ModelConfig, PositionConfig
from model.draws import own_generator
from model.initialisation import initialise
from pipeline.config import validate
from pipeline.published.importing import import_tokenizer
from tools.prompting.answers import answer_rows
from tools.prompting.candidates import Candidate, Causal
from tools.prompting.demonstrations import Demonstrations
from tools.prompting.rows import PromptRow
from tools.prompting.template import Prompt, Template, prompt_of

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
            found.append(torch.tensor([of[chr(one.ids[place])] for place in one.places], dtype=torch.float64))
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
    assert (tied.tied, tied.best) == (True, 0)


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


KEYS, TAGS = [f"k{number}" for number in range(8)], [f"t{number}" for number in range(4)]
TOY: dict[str, Any] = {"example": "{tag} {key}{label}", "separator": " ", "labels": {"a": [" va"], "b": [" vb"]}}


def toy_rows(count: int, shots: int, seed: str) -> list[tuple[list[PromptRow], PromptRow]]:
    """Rows of a key, each after rows of different keys with labels of their own, of which one is its key's."""
    draw = own_generator(1, seed)
    found = []
    for number in range(count):
        keys = torch.randperm(8, generator=draw)[: max(shots, 1)].tolist()
        labels = ["ab"[int(torch.randint(2, (1,), generator=draw))] for _ in keys]
        tags = torch.randint(4, (len(keys) + 1,), generator=draw).tolist()
        shown = [
            PromptRow(number, {"tag": TAGS[tag], "key": KEYS[key]}, label)
            for tag, key, label in zip(tags, keys, labels, strict=False)
        ]
        asked = int(torch.randint(len(keys), (1,), generator=draw))
        query = PromptRow(10**6 + number, {"tag": TAGS[tags[-1]], "key": KEYS[keys[asked]]}, labels[asked])
        found.append((shown[:shots], query))
    return found


@pytest.mark.slow
def test_a_small_model_learns_in_context(tmp_path: Path) -> None:
    """A model that was trained to copy answers knows nothing without demonstrations, and all with one or four.

    Demonstrations with labels of others mislead it; the size of a batch and the order of rows change nothing.
    """
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *KEYS, *TAGS, "va", "vb"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    tokenizer = import_tokenizer(tmp_path / "vocab.txt", tmp_path / "own")
    config = ModelConfig(
        family="decoder", dim=64, layers=2, attention_heads=4, ffn_dim=128, heads={"lm": 1.0},
        position=PositionConfig(kind="rope"),
    )  # fmt: skip
    model = Model(config, len(words))
    initialise(model, config, 3)
    causal = Causal(model, tokenizer, 2)
    toy: Template = validate(Template, TOY, "test")
    train_toy(model, causal, toy, steps=500)
    model.eval()

    def accuracy(shots: int, wrong: bool = False, tokens: int = 2048, reverse: bool = False) -> tuple[float, list[Any]]:
        asked = toy_rows(200, shots, f"test {shots}")
        if wrong:
            asked = [([flipped(one) for one in shown], query) for shown, query in asked]
        before = {query.uid: shown for shown, query in asked}
        queries = [query for _, query in asked]
        scorer = Causal(model, tokenizer, 2, tokens)
        found = answer_rows(queries[::-1] if reverse else queries, toy, lambda one: before[one.uid], scorer, 99)
        found = found[::-1] if reverse else found
        right = sum("ab"[one.best] == one.row.label for one in found)
        return right / len(found), [one.scores for one in found]

    none_shown, one_shown, four_shown = accuracy(0)[0], accuracy(1)[0], accuracy(4)[0]
    assert 0.35 < none_shown < 0.65
    assert one_shown > 0.9
    assert four_shown > 0.9
    assert accuracy(4, wrong=True)[0] < 0.3
    plain = torch.tensor(accuracy(4)[1])
    for changes in ({"tokens": 40}, {"reverse": True}):
        assert torch.allclose(torch.tensor(accuracy(4, **changes)[1]), plain, atol=1e-5)


def flipped(one: PromptRow) -> PromptRow:
    return PromptRow(one.uid, one.fields, "b" if one.label == "a" else "a")


def train_toy(model: Model, causal: Causal, toy: Template, steps: int) -> None:
    """Train on whole prompts, of which the last word alone has a label."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(steps):
        shots = 1 + step % 6
        rows, labels = [], []
        for shown, query in toy_rows(64, shots, f"train {step}"):
            prompt = prompt_of(toy, [(one.fields, one.label or "") for one in shown], query.fields)
            ids = causal.candidate(prompt, toy.labels[query.label or ""][0]).ids
            rows.append(ids[:-1])
            labels.append(ids[-1])
        length = len(rows[0])
        tensors = {
            "input_ids": torch.tensor(rows), "position_ids": torch.arange(length)[None],
            "lengths": torch.full((64,), length), "row_weight": torch.ones(64),
            "label_index": torch.arange(64) * length + length - 1, "label_ids": torch.tensor(labels),
        }  # fmt: skip
        loss = model(tensors)["lm"]
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


def test_demonstrations_of_a_pool_go_before_the_row() -> None:
    pool = [PromptRow(number, {"text": f"p{number}"}, "ab"[number % 2]) for number in range(9)]
    (found,) = answer_rows([row("page")], template(), Demonstrations(pool, 4, "balanced", 0).of, Letters(), 999)
    assert len(set(found.demonstrations)) == 4
    assert sum(uid % 2 for uid in found.demonstrations) == 2
