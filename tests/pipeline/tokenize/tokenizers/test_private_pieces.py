"""Special pieces that no text can spell, in every kind of model."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson, hide_pieces
from tests.pipeline.tokenize.tokenizers.test_tokenizer_json import added


@given(st.sampled_from(["<unk>", "</s>", "<pad>"]), st.sampled_from(["", "\0", "\uffff", "\ufdd0", " "]))
def test_no_text_spells_a_special_piece(piece, before):
    """Wherever a model looks: its dictionary of words, its list of pieces, or its merges."""
    pieces = ["<unk>", "</s>", "<pad>", *"<unk>/sp d\0\uffff", "\0</s>", "</", "</s"]
    ids = {name: number for number, name in enumerate(dict.fromkeys(pieces))}
    for model in (
        models.WordLevel(ids, unk_token="<unk>"),
        models.WordPiece(ids, unk_token="<unk>"),
        models.Unigram([(name, -1.0) for name in ids], 0, False),
        models.BPE(ids, [("<", "/"), ("</", "s"), ("</s", ">"), ("</s>", "p")][:3], unk_token="<unk>"),
        models.BPE(ids, [], unk_token="<unk>", ignore_merges=True),
    ):
        facts = json.loads(Tokenizer(model).to_str())
        facts["added_tokens"] = [added(name, ids[name], special=True) for name in ("<unk>", "</s>", "<pad>")]
        tokenizer = TokenizerJson(facts, Published(specials={"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}))
        found = tokenizer.encode([before + piece])[0].ids.tolist()
        assert not {1, 2} & set(found), facts["model"]["type"]
        assert tokenizer.piece(1) == "</s>"


def test_what_was_given_stays_and_lost_merges_are_counted():
    model = {"vocab": {"<": 0, "s": 1, "<s": 2, "<sx": 3, "x": 4}, "merges": [["<", "s"], ["<s", "x"]], "dropout": 0.5}
    facts = {"model": {**model, "unk_token": "s"}, "added_tokens": [added("<s", 2, special=True)], "padding": {}}
    before = json.dumps(facts)
    hidden, lost = hide_pieces(facts, {"<s"})
    assert json.dumps(facts) == before
    assert (lost, hidden["model"]["merges"], hidden["model"]["dropout"]) == (2, [], None)
    assert list(hidden["model"]["vocab"].values()) == [0, 1, 2, 3, 4]
    assert "<s" not in hidden["model"]["vocab"]
    assert hidden["added_tokens"][0]["content"] in hidden["model"]["vocab"]
