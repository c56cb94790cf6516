"""Scores of words against the loss of training, and boundaries that a blank does not move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.candidates import Candidate, Cloze, Scorer
from clozeline.tools.runs.prompting.scorers import open_scorer
from clozeline.tools.runs.prompting.template import Prompt
from clozeline.train.startup.open_run import Run
from tests.tools.runs.prompting.prompted_runs import KINDS, prompted_run

PROMPT = Prompt("The page of the book.\nPolarity:", " is what it was.")
WORDS = [" good", " not so good", " page"]


@pytest.fixture(scope="module")
def opened(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, Scorer]]:
    found = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        trained = prompted_run(folder, shard_sets, kind)
        found[kind] = (trained, open_scorer(folder, trained, None)[0])
    return found


def loss(trained: Run, row: list[int], places: list[int], ids: list[int], **more: Any) -> float:
    """The summed loss of training at places of a row."""
    tensors = {"input_ids": torch.tensor([row]), "position_ids": torch.arange(len(row))[None]}
    tensors |= {"lengths": torch.tensor([len(row)]), "row_weight": torch.ones(1), **more}
    tensors |= {"label_index": torch.tensor(places), "label_ids": torch.tensor(ids)}
    with torch.no_grad():
        (found,) = trained.model(tensors).values()
    return float(found.total)


def expected(kind: str, trained: Run, one: Candidate, masks: str) -> float:
    """The score of a word by the loss, computed apart."""
    row, places = list(one.ids), list(one.positions)
    if kind == "causal":
        return -loss(trained, row[:-1], [place - 1 for place in places], [row[place] for place in places])
    if kind == "cloze":
        mask, total = trained.tokenizer.vocabulary.specials["mask"], 0.0
        for number, place in enumerate(places):
            hidden = places if masks == "independent" else places[number:]
            total -= loss(
                trained, [mask if at in hidden else token for at, token in enumerate(row)], [place], [row[place]]
            )
        return total
    objective = trained.objectives[0]
    read = torch.tensor([[objective.frame.decoder_start, *one.answer[:-1]]])
    more = {"decoder_input_ids": read, "decoder_position_ids": torch.arange(read.shape[1])[None]}
    return -loss(trained, row, places, [one.answer[place] for place in places], **more)


@pytest.mark.parametrize("kind", [*KINDS, "independent"])
def test_the_score_of_a_word_is_minus_the_loss_of_its_tokens(opened: Any, kind: str) -> None:
    trained, scorer = opened["cloze" if kind == "independent" else kind]
    if kind == "independent":
        kind, masks, scorer = "cloze", "independent", Cloze(trained.model, trained.tokenizer, "independent")
    else:
        masks = "left_to_right"
    candidates = [scorer.candidate(PROMPT, word) for word in WORDS]
    assert max(len(one.positions) for one in candidates) > 1
    for one, found in zip(candidates, scorer.scores(candidates), strict=True):
        assert len(found) == len(one.positions)
        assert float(found.sum()) == pytest.approx(expected(kind, trained, one, masks), abs=1e-4)
        (alone,) = scorer.scores([one])
        assert torch.allclose(alone, found, atol=1e-5)


def test_tokens_of_words_of_several_tokens_know_of_each_other_or_not(opened: Any) -> None:
    trained, scorer = opened["cloze"]
    one = scorer.candidate(PROMPT, WORDS[1])
    other = Cloze(trained.model, trained.tokenizer, "independent")
    assert not torch.allclose(scorer.scores([one])[0], other.scores([one])[0], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_blank_may_be_on_either_side_of_the_boundary(opened: Any, kind: str) -> None:
    _, scorer = opened[kind]
    moved = Prompt(f"{PROMPT.before} ", PROMPT.after)
    for word in WORDS:
        assert scorer.candidate(moved, word.strip()) == scorer.candidate(PROMPT, word)
    if kind != "text":
        assert scorer.candidate(PROMPT, "good") != scorer.candidate(PROMPT, " good")


@pytest.mark.parametrize("kind", ["cloze", "causal", "answer"])
def test_the_tokens_are_those_of_the_whole_text(opened: Any, kind: str) -> None:
    """The text around the word, and the word, have the tokens of one text."""
    trained, scorer = opened[kind]
    for word in WORDS:
        one = scorer.candidate(PROMPT, word)
        ids = one.answer if kind == "answer" else one.ids
        assert trained.tokenizer.decode([ids[place] for place in one.positions]) == word
        text = f"{PROMPT.before}{word}{PROMPT.after}" if kind != "causal" else f"{PROMPT.before}{word}"
        whole = trained.tokenizer.encode([text])[0].ids.tolist()
        if kind == "answer":
            sentinel, end = trained.tokenizer.vocabulary.sentinels[0], trained.tokenizer.vocabulary.specials["eos"]
            at = one.ids.index(sentinel)
            assert [*one.ids[:at], *one.answer[1:], *one.ids[at + 1 :]] == [*whole, end]
            assert one.answer[0] == sentinel
        else:
            inner = one.ids[1:-1] if kind == "cloze" else one.ids[1:]
            assert list(inner) == whole


def test_a_text_to_text_model_reads_the_prompt_and_ends_the_word(opened: Any) -> None:
    trained, scorer = opened["text"]
    one = scorer.candidate(PROMPT, WORDS[1])
    end = trained.tokenizer.vocabulary.specials["eos"]
    assert trained.tokenizer.decode(one.answer[:-1]) == WORDS[1].strip()
    assert one.answer[-1] == one.ids[-1] == end
    assert one.positions == tuple(range(len(one.answer)))
    assert PROMPT.before in trained.tokenizer.decode(one.ids)
    assert PROMPT.after not in trained.tokenizer.decode(one.ids)


def test_a_word_without_tokens_and_a_prompt_without_text_are_refused(opened: Any) -> None:
    _, scorer = opened["causal"]
    with pytest.raises(ConfigurationError, match="no token for ' '"):
        scorer.candidate(PROMPT, " ")
