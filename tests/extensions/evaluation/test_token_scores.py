"""Log-probabilities of tokens, against forward passes by hand and the scores that sum them."""

import json

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.extensions.evaluation.commands.log_probabilities import main
from clozeline.extensions.evaluation.perplexity import perplexity_scores
from clozeline.extensions.evaluation.prompting.scorers import open_scorer as open_prompt_scorer
from clozeline.extensions.evaluation.prompting.template import LabelPrompt
from clozeline.extensions.evaluation.token_scores import score_tokens
from clozeline.tools.runs.inference.text_likelihoods import open_scorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.refusals import refused
from tests.train.written_runs import write_run

TEXT = "the page of the book is long"
SOURCE = "another page of"
BOTH = {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}
KINDS = {
    "gpt": ("causal_lm", {"model__family": "decoder", "model__heads": {"lm": 1.0}}),
    "bert": ("masked_lm", {}),
    "xlnet": (
        "xlnet",
        {
            "model__family": "xlnet",
            "model__norm_place": "post",
            "model__final_norm": False,
            "model__position": {"kind": "sinusoidal"},
            "model__bias": {"qkv": False, "out": False},
        },
    ),
    "t5": ("span_corruption", BOTH),
    "bart": ("text_infilling", BOTH),
}


@pytest.fixture(scope="module")
def runs(shard_sets, tmp_path_factory):
    found = {}
    for name, (label, changes) in KINDS.items():
        folder = tmp_path_factory.mktemp(name)
        write_run(folder, shard_sets, [3], 1, label, **{"model__init": {"std": 0.3}, **changes})
        found[name] = TrainedModel.open(folder)
    return found


def ids_of(trained, text=TEXT):
    return trained.tokenizer.encode([text])[0].ids.tolist()


def logits_of(trained, row, place, **more):
    """The log-probabilities of all tokens at one place of a row that is read alone."""
    tensors = {
        "input_ids": torch.tensor([row]),
        "position_ids": torch.arange(len(row))[None],
        "lengths": torch.tensor([len(row)]),
    }
    with torch.no_grad():
        hidden = trained.model.family(tensors | more)[0, place]
        (head,) = trained.model.heads.values()
        logits = head.logits(hidden[None])[0].double()
    logits[trained.tokenizer.vocabulary.size :] = -torch.inf
    return logits.log_softmax(-1)


def check(found, expected, trained):
    """`expected`: position in the text, and the log-probabilities of all tokens there."""
    total = 0.0
    assert [one["position"] for one in found] == [position for position, _ in expected]
    for one, (_, logits) in zip(found, expected, strict=True):
        nats = float(logits[one["id"]])
        total += nats
        assert one["token"] == trained.tokenizer.piece(one["id"])
        assert one["nats"] == pytest.approx(nats, abs=1e-4)
        assert one["sum"] == pytest.approx(total, abs=1e-3)
        assert one["rank"] == 1 + int((logits > logits[one["id"]] + 1e-6).sum())


def test_a_decoder_follows_the_chain_rule(runs, tmp_path):
    trained = runs["gpt"]
    found = score_tokens(trained, TEXT)
    row = [trained.tokenizer.vocabulary.specials["eos"], *ids_of(trained)]
    expected = [(at, logits_of(trained, row[:at], at - 1)) for at in range(1, len(row))]
    check(found, expected, trained)

    # the sum is that of perplexity and of minimal pairs
    (tmp_path / "text.jsonl").write_text(json.dumps({"text": TEXT}))
    perplexity = perplexity_scores(trained, tmp_path / "text.jsonl", 40, 40)
    assert -found[-1]["sum"] == pytest.approx(perplexity["nats"] * perplexity["tokens"], abs=1e-4)
    scorer, _ = open_scorer(trained, None)
    (pair,) = scorer.score([TEXT])
    assert found[-1]["sum"] == pytest.approx(pair.total, abs=1e-4)


def test_chosen_words_are_masked_together_and_others_one_by_one(runs):
    trained = runs["bert"]
    special = trained.tokenizer.vocabulary.specials
    row = [special["cls"], *ids_of(trained), special["sep"]]

    def masked(*places):
        return [special["mask"] if at in places else token for at, token in enumerate(row)]

    check(
        score_tokens(trained, TEXT, choose=[4, 2]),
        [(4, logits_of(trained, masked(2, 4), 4)), (2, logits_of(trained, masked(2, 4), 2))],
        trained,
    )
    alone = [(at, logits_of(trained, masked(at), at)) for at in range(1, len(row) - 1)]
    check(score_tokens(trained, TEXT), alone, trained)


def test_an_order_is_that_of_the_predictions(runs):
    trained = runs["xlnet"]
    form = trained.objectives[0].frame
    row = [*form.head, *ids_of(trained), *form.tail]
    order = [3, 1, 5]
    expected = []
    for count, number in enumerate(order):
        # the token and all later ones are unseen: other tokens are there, in another order
        known, unseen = order[:count], order[:count:-1]
        rank = torch.zeros(1, len(row), dtype=torch.int64)
        changed = list(row)
        for turn, other in enumerate([*known, number, *unseen], 1):
            rank[0, len(form.head) + other - 1] = turn
        for other in (number, *unseen):
            changed[len(form.head) + other - 1] = row[-1]
        place = len(form.head) + number - 1
        expected.append((number, logits_of(trained, changed, place, rank=rank)))
    check(score_tokens(trained, TEXT, choose=order), expected, trained)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_a_target_is_scored_after_its_source_as_a_prompt_is(runs, kind):
    trained = runs[kind]
    found = score_tokens(trained, " long", SOURCE)
    scorer, _ = open_prompt_scorer(trained, None)
    candidate = scorer.candidate(LabelPrompt(SOURCE, ""), " long")
    start = trained.objectives[0].frame.decoder_start
    expected = []
    for position in candidate.positions:
        read = torch.tensor([[start, *candidate.answer[:position]]])
        more = {
            "decoder_input_ids": read,
            "decoder_position_ids": torch.arange(read.shape[1])[None],
            "decoder_lengths": torch.tensor([read.shape[1]]),
        }
        expected.append((position + 1, logits_of(trained, list(candidate.ids), position, **more)))
    assert len(expected) == len(found)
    numbered = [(one["position"], logits) for one, (_, logits) in zip(found, expected, strict=True)]
    check(found, numbered, trained)
    (prompt,) = scorer.scores([candidate])
    assert found[-1]["sum"] == pytest.approx(float(prompt.sum()), abs=1e-4)


def test_a_decoder_continues_a_source(runs):
    trained = runs["gpt"]
    head = trained.tokenizer.vocabulary.specials["eos"]
    source = [head, *ids_of(trained, SOURCE)]
    row = [head, *ids_of(trained, f"{SOURCE} long")]
    expected = [
        (at - len(source) + 1, logits_of(trained, row[:at], at - 1))
        for at in range(len(source), len(row))
    ]
    check(score_tokens(trained, " long", SOURCE), expected, trained)


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("gpt", TEXT, {"choose": [1, 2]}, "predicts in one order"),
        ("bert", TEXT, {"choose": [99]}, "TEXT has tokens 1 to"),
        ("bert", TEXT, {"choose": [2, 2]}, "each at most once"),
        ("gpt", "", {}, "no token to predict"),
        ("t5", TEXT, {}, "which prepares no score of texts alone"),
    ],
)
def test_what_cannot_be_scored_is_said(runs, name, text, options, said):
    with refused(said):
        score_tokens(runs[name], text, **options)


def test_a_text_that_is_longer_than_the_table_is_refused(runs):
    with pytest.raises(BatchError, match="position table holds 64"):
        score_tokens(runs["gpt"], TEXT * 20)


def test_the_command_prints_a_line_for_each_token(runs, capsys):
    assert main([str(runs["bert"].folder), TEXT, "choose=[2, 4]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["position", "token", "id", "nats", "sum", "rank"]
    assert [line.split()[0] for line in lines[1:]] == ["2", "4"]
