"""A small decoder that learns to find answers among the demonstrations of its prompt, and nothing else."""

import pytest
import torch

from clozeline.configuration.config import validate
from clozeline.model.build import Model
from clozeline.model.configuration.layer import InitConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.initialization import initialize_parameters
from clozeline.model.parameters.initial_values import generator_for
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.tools.runs.prompting.answers import answer_rows
from clozeline.tools.runs.prompting.rows import PromptRow
from clozeline.tools.runs.prompting.scorers import Causal
from clozeline.tools.runs.prompting.template import Template, prompt_of

KEYS = [f"k{number}" for number in range(8)]
TOY = {"example": "{key}{label}", "separator": " ", "labels": {"a": [" va"], "b": [" vb"]}}
SHOWN = 9
"""Demonstrations of a row that is learnt."""


def asked_rows(count, shots):
    """Rows of a key, each after rows of different keys with labels of their own, of which one is its key's."""
    draw = generator_for(1, f"test {shots}")
    found = []
    for number in range(count):
        keys = torch.randperm(8, generator=draw)[: max(shots, 1)].tolist()
        labels = ["ab"[int(torch.randint(2, (1,), generator=draw))] for _ in keys]
        shown = [PromptRow(number, {"key": KEYS[key]}, label) for key, label in zip(keys, labels, strict=True)]
        asked = int(torch.randint(len(keys), (1,), generator=draw))
        found.append((shown[:shots], PromptRow(10**6 + number, {"key": KEYS[keys[asked]]}, labels[asked])))
    return found


def learn(model, causal, toy, steps):
    """Train on rows in which keys recur with their labels; the labels of keys that were shown before are learnt."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(steps):
        draw = generator_for(2, f"train {step}")
        keys = torch.randint(8, (64, SHOWN + 1), generator=draw)
        labels = torch.randint(2, (64, 8), generator=draw).gather(1, keys)
        rows, places = [], []
        for row, (of, answers) in enumerate(zip(keys.tolist(), labels.tolist(), strict=True)):
            shown = [({"key": KEYS[key]}, "ab"[answer]) for key, answer in zip(of, answers, strict=True)]
            prompt = prompt_of(toy, shown[:-1], shown[-1][0])
            ids = causal.candidate(prompt, toy.labels[shown[-1][1]][0]).ids
            rows.append(ids)
            first = len(ids) - 2 * (SHOWN + 1)
            places += [(row, first + 2 * at) for at in range(1, SHOWN + 1) if of[at] in of[:at]]
        tokens = torch.tensor(rows)
        length = tokens.shape[1]
        tensors = {
            "input_ids": tokens, "position_ids": torch.arange(length)[None], "lengths": torch.full((64,), length),
            "row_weight": torch.ones(64), "label_index": torch.tensor([row * length + at for row, at in places]),
            "label_ids": torch.stack([tokens[row, at + 1] for row, at in places]),
        }  # fmt: skip
        loss = model(tensors)["lm"]
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


@pytest.mark.slow
def test_a_small_model_learns_in_context(tmp_path):
    """It knows nothing without demonstrations, and all with one or four; those with wrong labels mislead it.

    The size of a batch and the order of rows change nothing, and asking changes no weight.
    """
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *KEYS, "va", "vb"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    tokenizer = import_tokenizer(tmp_path / "vocab.txt", tmp_path / "own")
    config = ModelConfig(
        family="decoder", dim=64, layers=2, attention_heads=4, ffn_dim=128, heads={"lm": 1.0},
        position=PositionConfig(kind="rope"), init=InitConfig(std=0.125),
    )  # fmt: skip
    model = Model(config, len(words))
    initialize_parameters(model, config, 3)
    causal = Causal(model, tokenizer, 2)
    toy = validate(Template, TOY, "test")
    learn(model, causal, toy, steps=220)
    model.eval()
    weights = {name: parameter.clone() for name, parameter in model.named_parameters()}

    def accuracy(shots, wrong=False, tokens=2048, reverse=False):
        asked = asked_rows(200, shots)
        if wrong:
            asked = [([flipped(one) for one in shown], query) for shown, query in asked]
        before = {query.uid: shown for shown, query in asked}
        queries = [query for _, query in asked]
        scorer = Causal(model, tokenizer, 2, tokens)
        found = answer_rows(queries[::-1] if reverse else queries, toy, lambda one: before[one.uid], scorer, 99)
        found = found[::-1] if reverse else found
        right = sum("ab"[one.best] == one.row.label for one in found)
        return right / len(found), [one.scores for one in found]

    shares = [accuracy(shots)[0] for shots in (0, 1, 4)]
    assert 0.35 < shares[0] < 0.65
    assert min(shares[1:]) > 0.9, shares
    assert accuracy(4, wrong=True)[0] < 0.1
    plain = torch.tensor(accuracy(4)[1])
    for changes in ({"tokens": 40}, {"reverse": True}):
        assert torch.allclose(torch.tensor(accuracy(4, **changes)[1]), plain, atol=1e-5)
    assert all(torch.equal(weights[name], parameter) for name, parameter in model.named_parameters())


def flipped(one):
    return PromptRow(one.uid, one.fields, "b" if one.label == "a" else "a")
