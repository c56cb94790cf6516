"""Scores of words against the loss of training, and boundaries that a blank does not move."""

import pytest
import torch

from clozeline.extensions.evaluation.prompting.scorers import open_scorer
from clozeline.extensions.evaluation.prompting.template import LabelPrompt
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.refusals import refused
from tests.train.written_runs import write_run

KINDS = {
    "cloze": ("masked_lm", {}),
    "causal": ("causal_lm", {"model__family": "decoder", "model__heads": {"lm": 1.0}}),
    "answer": (
        "span_corruption",
        {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}, "model__norm": "rms"},
    ),
    "text": ("text_infilling", {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}),
}


def prompted_run(folder, shard_sets, kind):
    """Write a run whose scores of tokens differ widely, and load it."""
    label, changes = KINDS[kind]
    write_run(folder, shard_sets, [3], 1, label, **{"model__init": {"std": 0.3}, **changes})
    return TrainedModel.open(folder)


PROMPT = LabelPrompt("The page of the book.\nPolarity:", " is what it was.")
WORDS = [" good", " not so good", " page"]


@pytest.fixture(scope="module")
def opened(shard_sets, tmp_path_factory):
    found = {}

    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        trained = prompted_run(folder, shard_sets, kind)
        found[kind] = (trained, open_scorer(trained, None)[0])

    return found


def loss(trained, row, places, ids, **more):
    tensors = {
        "input_ids": torch.tensor([row]),
        "position_ids": torch.arange(len(row))[None],
    }
    tensors |= {"lengths": torch.tensor([len(row)]), "row_weight": torch.ones(1), **more}
    tensors |= {"label_index": torch.tensor(places), "label_ids": torch.tensor(ids)}
    with torch.no_grad():
        (found,) = trained.model(tensors).values()
    return float(found.total)


def expected(kind, trained, one, masks):
    """The score of a word by the loss, computed apart."""
    row = list(one.ids)
    places = list(one.positions)

    if kind == "causal":
        return -loss(
            trained, row[:-1], [place - 1 for place in places], [row[place] for place in places]
        )

    if kind == "cloze":
        mask = trained.tokenizer.vocabulary.specials["mask"]
        total = 0.0

        for number, place in enumerate(places):
            hidden = places if masks == "independent" else places[number:]
            total -= loss(
                trained,
                [mask if at in hidden else token for at, token in enumerate(row)],
                [place],
                [row[place]],
            )

        return total

    objective = trained.objectives[0]
    read = torch.tensor(
        [
            [
                objective.frame.decoder_start,
                *one.answer[:-1],
            ]
        ]
    )
    more = {"decoder_input_ids": read, "decoder_position_ids": torch.arange(read.shape[1])[None]}
    return -loss(trained, row, places, [one.answer[place] for place in places], **more)


@pytest.mark.parametrize("kind", [*KINDS, "independent"])
def test_the_score_of_a_word_is_minus_the_loss_of_its_tokens(opened, kind):
    trained, scorer = opened["cloze" if kind == "independent" else kind]

    if kind == "independent":
        kind = "cloze"
        masks = "independent"
        scorer, _ = open_scorer(trained, "cloze", "independent")
    else:
        masks = "left_to_right"

    candidates = [scorer.candidate(PROMPT, word) for word in WORDS]

    assert max(len(one.positions) for one in candidates) > 1

    for one, found in zip(candidates, scorer.scores(candidates), strict=True):
        assert len(found) == len(one.positions)
        assert float(found.sum()) == pytest.approx(expected(kind, trained, one, masks), abs=1e-4)
        (alone,) = scorer.scores([one])
        assert torch.allclose(alone, found, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_blank_may_be_on_either_side_of_the_boundary(opened, kind):
    _, scorer = opened[kind]
    moved = LabelPrompt(f"{PROMPT.before} ", PROMPT.after)
    for word in WORDS:
        assert scorer.candidate(moved, word.strip()) == scorer.candidate(PROMPT, word)
    if kind != "text":
        assert scorer.candidate(PROMPT, "good") != scorer.candidate(PROMPT, " good")


def test_a_word_without_tokens_and_a_prompt_without_text_are_refused(opened):
    _, scorer = opened["causal"]
    with refused("no token for ' '"):
        scorer.candidate(PROMPT, " ")
