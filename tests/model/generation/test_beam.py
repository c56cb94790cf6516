"""Beams against exhaustive search, against transformers' beam search, and against rows read at
once."""

import itertools

import pytest
import torch

import clozeline.model.generation.beam
from clozeline.errors import BatchError
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import generate, generate_beams
from tests.extensions.published.peers import peer
from tests.model.generation.test_generate import PROMPTS, START, perturbed, tensors_of
from tests.model.small_models import small_config

SYMBOLS = 5
LENGTH = 4
END = 3


@pytest.fixture(scope="module", params=["gpt2", "t5"])
def peers(request, tmp_path_factory):
    """Our model, that of transformers, and what our decoder needs to start: larger matrices and
    smaller biases."""
    folder = tmp_path_factory.mktemp("peer")
    theirs = peer(request.param, 2)
    for name, parameter in theirs.named_parameters():
        parameter.data = (
            2 * parameter.data
            if parameter.ndim > 1
            else parameter.data - float(name.endswith("bias"))
        )

    theirs.save_pretrained(folder)
    start = {"decoder_start": 0} if theirs.config.is_encoder_decoder else {}
    return build_checkpoint(read_checkpoint(folder)).eval(), theirs, start


def few_symbols(family):
    torch.manual_seed(1)
    network = build_model(small_config(family), SYMBOLS, {"pad": 0}).eval()
    for parameter in network.parameters():
        parameter.data = 3 * parameter.data if parameter.ndim > 1 else parameter.data
    return network


def every_continuation(network, prompt, start, divisor):
    """All rows that end, or hold LENGTH tokens, with their sums over the divisor, the best
    first."""
    leaves = list(itertools.product(range(SYMBOLS), repeat=LENGTH))
    sums = sums_of(network, prompt, leaves, start)
    found = {}
    for leaf, of_leaf in zip(leaves, sums.tolist(), strict=True):
        size = leaf.index(END) + 1 if END in leaf else LENGTH
        found[leaf[:size]] = of_leaf[size - 1] / divisor(size)

    ranked = sorted(found, key=lambda new: -found[new])
    ended = {
        new: (list(new[:-1]), "end") if new[-1] == END else (list(new), "max_tokens")
        for new in ranked
    }
    return [Continuation(*ended[new], found[new]) for new in ranked]


def sums_of(network, prompt, news, start):
    """Sums of log-probabilities up to each token of new ones of equal length, the rows read at
    once, [news, length]."""
    before = [start["decoder_start"]] if start else list(prompt)
    side = "decoder_" if start else ""
    rows = torch.tensor([[*before, *new] for new in news])
    given = tensors_of(prompt, "") if start else {}
    given = {name: value.expand(len(news), *value.shape[1:]) for name, value in given.items()}
    places = {f"{side}position_ids": torch.arange(rows.shape[1])[None]}
    lengths = {f"{side}lengths": torch.full((len(news),), rows.shape[1])}

    with torch.no_grad():
        scores = network.logits(given | {f"{side}input_ids": rows} | places | lengths)["lm"][
            :, -len(news[0]) - 1 : -1
        ]

    return (
        scores.double()
        .log_softmax(-1)
        .gather(2, torch.tensor(news)[:, :, None])[:, :, 0]
        .cumsum(-1)
    )


@pytest.mark.parametrize("family", START)
@pytest.mark.parametrize(
    ("exponent", "form"),
    [(0.0, "power"), (1.0, "power"), (-0.5, "power"), (0.6, "gnmt"), (3.0, "gnmt")],
)
def test_a_beam_as_wide_as_the_tree_searches_all_of_it(family, exponent, form):
    network = few_symbols(family)
    start = START[family]
    prompts = [[1, 4], [2]]
    decoding = Decoding(
        mode="beam",
        width=SYMBOLS**LENGTH,
        max_tokens=LENGTH,
        length_penalty=exponent,
        length_form=form,
    )

    found = generate_beams(network, prompts, decoding, end_ids={END}, **start)

    def divisor(size):
        return size**exponent if form == "power" else ((5 + size) / 6) ** exponent

    for prompt, ranked in zip(prompts, found, strict=True):
        expected = every_continuation(network, prompt, start, divisor)

        assert len(ranked) == len(expected) == 1 + 4 + 16 + 64 * 5
        assert [one.score for one in ranked] == pytest.approx(
            [one.score for one in expected], abs=1e-4
        )
        assert ranked[:10] == expected[:10]
        assert sorted(one.ids for one in ranked) == sorted(one.ids for one in expected)


def peer_beams(theirs, prompt, options, **more):
    """Return the answer of transformers' beam search for one prompt: tokens and score of each, the
    best first."""
    ids = torch.tensor([prompt])
    found = theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        early_stopping="never",
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        use_cache=False,
        forced_eos_token_id=None,
        **options,
        **more,
    )

    skipped = 1 if theirs.config.is_encoder_decoder else len(prompt)
    rows = [row[skipped:].tolist() for row in found.sequences]
    return rows, found.sequences_scores.tolist()


RULES = {
    "plain": ({}, {}),
    "bans": (
        {"repetition_penalty": 1.4, "no_repeat_ngram": 2, "min_tokens": 5, "length_penalty": 2.0},
        {
            "repetition_penalty": 1.4,
            "no_repeat_ngram_size": 2,
            "min_new_tokens": 5,
            "length_penalty": 2.0,
        },
    ),
    "shorter": ({"length_penalty": -1.0}, {"length_penalty": -1.0}),
}


@pytest.mark.parametrize("rule", RULES)
def test_beams_equal_those_of_transformers(peers, rule):
    """With an end token and banned sequences that the model likes.

    Transformers lifts a ban of the end token.
    """
    model, their, start = peers
    free = generate(model, PROMPTS, Decoding(max_tokens=9), **start)
    end, first, second = list(dict.fromkeys(token for one in free for token in one.ids))[:3]
    banned = [[first], [second, second]]
    ours, theirs = RULES[rule]
    decoding = Decoding(mode="beam", width=3, max_tokens=9, **ours)
    found = generate_beams(model, PROMPTS, decoding, end_ids={end}, banned=banned, **start)
    options = {
        "num_beams": 3,
        "num_return_sequences": 3,
        "max_new_tokens": 9,
        "eos_token_id": end,
    } | theirs

    for prompt, ranked in zip(PROMPTS, found, strict=True):
        rows, scores = peer_beams(their, prompt, options, bad_words_ids=banned)
        ended = [row[: row.index(end)] if end in row else row for row in rows]
        assert [one.ids for one in ranked] == ended
        assert [one.score for one in ranked] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("mode", ["greedy", "sample"])
@pytest.mark.parametrize("family", START)
def test_a_score_is_that_of_the_row_read_at_once(family, mode):
    network = perturbed(family)
    start = START[family]
    end = generate(network, PROMPTS, Decoding(max_tokens=9), **start)[0].ids[4]
    decoding = Decoding(mode=mode, max_tokens=9, no_repeat_ngram=2, min_tokens=2)
    found = generate(network, PROMPTS, decoding, end_ids={end}, **start)
    for prompt, one in zip(PROMPTS, found, strict=True):
        new = [*one.ids, end] if one.stop == "end" else one.ids
        total = float(sums_of(network, prompt, [new], start)[0, -1])
        assert one.score == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("family", [*START, "awd_lstm"])
def test_a_beam_of_one_is_greedy_and_prompts_do_not_know_each_other(family):
    network = perturbed(family) if family in START else few_symbols("awd_lstm")
    prompts = PROMPTS if family in START else [[4, 1, 2], [3], [1, 1]]
    start = START.get(family, {})
    ends = {3, 17} if family in START else {3}
    rules = {"max_tokens": 8, "min_tokens": 2, "no_repeat_ngram": 2}
    greedy = generate(network, prompts, Decoding(**rules), end_ids=ends, **start)
    one = Decoding(mode="beam", width=1, length_penalty=-5.0, **rules)

    assert generate(network, prompts, one, end_ids=ends, **start) == greedy

    wide = Decoding(mode="beam", max_tokens=8)
    together = generate_beams(network, prompts, wide, end_ids=ends, **start)
    for prompt, found in zip(prompts, together, strict=True):
        assert len(found) == 4
        assert generate_beams(network, [prompt], wide, end_ids=ends, **start) == [found]


@pytest.mark.parametrize("exponent", [-2.0, 0.0, 1.0])
def test_a_search_ends_early_only_where_nothing_can_change(monkeypatch, exponent):
    """Also where a penalty below 0 makes longer rows worse: the best that a row can become is then
    what it is."""
    network = few_symbols("decoder")
    prompts = [list(pair) for pair in itertools.product(range(SYMBOLS), repeat=2)]
    torch.manual_seed(4)  # scores so far apart that wrong bounds lose rows
    for parameter in network.parameters():
        if parameter.ndim > 1:
            parameter.data = 2.5 * torch.randn(parameter.shape) * parameter.shape[-1] ** -0.5

    decoding = Decoding(mode="beam", width=2, max_tokens=30, length_penalty=exponent)
    reads = []
    decode = network.family.decode
    monkeypatch.setattr(
        network.family, "decode", lambda *given: (reads.append(1), decode(*given))[1]
    )
    early = generate_beams(network, prompts, decoding, end_ids={1, END})
    steps = len(reads)
    monkeypatch.setattr(clozeline.model.generation.beam._Beams, "_is_done", lambda *_: False)

    assert generate_beams(network, prompts, decoding, end_ids={1, END}) == early
    assert len(reads) - steps == 30
    assert steps <= (29 if exponent <= 0 else 30)


def test_a_beam_without_any_token_is_refused():
    banned = [[token] for token in range(SYMBOLS)]

    with pytest.raises(
        BatchError, match="prompt 0: no token can follow after 0 new tokens, every token is banned"
    ):
        generate_beams(few_symbols("decoder"), [[1]], Decoding(mode="beam"), banned=banned)

    found = generate_beams(
        few_symbols("decoder"), [[1]], Decoding(mode="beam", max_tokens=1), banned=banned[:3]
    )

    assert sorted(one.ids for one in found[0]) == [[3], [4]]
