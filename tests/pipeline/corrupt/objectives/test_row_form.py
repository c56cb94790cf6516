"""What rows look like: as they are stored, and the same alone and as a mixture of two of itself."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import OBJECTIVES
from tests.contracts import contract
from tests.pipeline.corrupt.objectives.runner import VARIETIES, lengths_of
from tests.pipeline.corruption_cases import WORDS, samples
from tests.refusals import refused

CLS, SEP, BOS, EOS = (WORDS.specials[role] for role in ("cls", "sep", "bos", "eos"))
R, S, X = (WORDS.modes[mode] for mode in "RSX")
AROUND = {CLS, SEP, BOS, EOS, WORDS.specials["pad"], R, S, X}

FURTHER = {
    "causal_lm": [
        {"grouping": "document"},
        {"grouping": "document", "add_bos": True},
        {"separator": "sep"},
        {"separator": "none"},
    ],
    "prefix_lm": [{"source_head": "cls", "mode": "S"}, {"source_head": "bos", "separator": "eos"}],
    "permuted_lm": [{"frame": "xlnet"}],
    "text_infilling": [{"source_head": "none"}, {"source_head": "cls"}],
    "translation_lm": [{"reset_positions": False}],
}

# tokens before a text in an input, and after it, written down from the rows
TOKENS = [
    ({"name": "causal_lm"}, [EOS], []),
    ({"name": "causal_lm", "separator": "sep"}, [SEP], []),
    ({"name": "causal_lm", "separator": "none"}, [], []),
    ({"name": "causal_lm", "cross_documents": False}, [], []),
    ({"name": "causal_lm", "grouping": "document"}, [], [EOS]),
    ({"name": "causal_lm", "grouping": "document", "add_bos": True}, [BOS], [EOS]),
    ({"name": "causal_lm", "architecture": "encoder"}, [CLS], [SEP]),
    ({"name": "causal_lm", "architecture": "encoder_decoder"}, [], [EOS]),
    ({"name": "prefix_lm", "source_head": "cls", "mode": "S"}, [CLS, S], [EOS]),
    ({"name": "prefix_lm", "separator": "eos"}, [EOS], [EOS]),
    ({"name": "span_corruption", "architecture": "decoder", "mode": "R"}, [R], [EOS]),
    ({"name": "span_corruption", "source_head": "bos", "mode": "X"}, [BOS, X], [EOS]),
    ({"name": "permuted_lm", "frame": "xlnet"}, [], [SEP, CLS]),
    ({"name": "masked_encoder_decoder"}, [CLS], [SEP]),
    ({"name": "mass"}, [CLS], [SEP]),
]


def mixed(*entries):
    parts = [{**entry, "label": f"part{number}"} for number, entry in enumerate(entries)]
    return build_objective({"name": "mixture", "parts": parts}, WORDS)


@pytest.mark.parametrize(("entry", "before", "after"), TOKENS)
def test_the_tokens_around_a_text(entry, before, after):
    form = build_objective(entry, WORDS).form
    assert ([*form.before_text], [*form.tail]) == (before, after)


@contract(OBJECTIVES)
def test_rows_have_the_form_alone_and_in_a_mixture(name):
    for options in ({}, *VARIETIES.get(name, ()), *FURTHER.get(name, ())):
        entry = {"name": name, **lengths_of(name), **options}
        objective = build_objective(entry, WORDS)
        form = objective.form
        rows = samples([64, objective.content_length, 300, 200] * 3)
        examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)
        assert not skips.all()

        for row in map(np.ndarray.tolist, examples.columns["input_ids"]):
            if not row:
                continue
            head, tail = len(form.head), len(row) - len(form.tail)
            assert (tuple(row[:head]), tuple(row[tail:])) == (form.head, form.tail)
            assert form.parts or head == tail or not AROUND & {row[head], row[tail - 1]}
            assert form.longest_input is None or len(row) <= form.longest_input

        if name not in ("mixture", "text_to_text"):  # which consist of parts themselves
            assert mixed(entry, entry).form == form


def test_unequal_forms_stay_per_part():
    """All rows share the tokens that every part has; the parts know the others."""
    decoder = {"name": "prefix_lm", "source_head": "bos"}
    modes = mixed(*({**decoder, "mode": mode, "max_length": 64 + len(mode)} for mode in "SX"))
    assert modes.form.head == (BOS,)
    assert [form.head for form in modes.form.each] == [(BOS, S), (BOS, X)]
    assert modes.form.model_dump()["parts"][1]["head"] == (BOS, X)

    both = mixed({**decoder, "source_head": "none"}, {**decoder, "max_length": 100})
    assert (both.form.head, both.form.tail, both.form.longest_input) == ((), (EOS,), 512)

    pair = {"name": "translation_lm"}
    with refused("one batch layout"):
        mixed(pair, {**pair, "reset_positions": False})
