"""Published `tokenizer.json` files: pieces as text, holes, ids on real texts."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import (
    TokenizerJson,
    hide_pieces,
    list_pieces,
    read_tokenizer_json,
    refuse_growth,
)
from tests.pipeline.tokenize.published.published_files import byte_level, unigram_json
from tests.refusals import refused


def write_published(folder):
    """For the contract of tokenizers: a published one in the folder `out`."""
    return import_tokenizer(byte_level(folder), folder / "out")


def test_pieces_are_spelled_by_the_models_kind(tmp_path):
    """The file that is written neither cuts nor pads."""
    merged = import_tokenizer(byte_level(tmp_path), tmp_path / "a")

    assert (
        merged.decode(merged.encode([" naïve\n中<|endoftext|>"])[0].ids)
        == " naïve\n中<|endoftext|>"
    )

    pieces = import_tokenizer(unigram_json(tmp_path / "j"), tmp_path / "b")

    assert pieces.decode(pieces.encode(["the cat"])[0].ids) == " the cat"
    assert pieces.decode([1]) == "</s>"

    facts = json.loads((tmp_path / "b" / "tokenizer.json").read_text())

    assert facts["truncation"] is facts["padding"] is None


def test_pieces_are_in_the_order_of_their_ids_without_holes(tmp_path):
    facts = read_tokenizer_json(unigram_json(tmp_path))

    assert list_pieces(facts, "x")[:4] == ["<pad>", "</s>", "<unk>", "<mask_1>"]

    facts["added_tokens"].append({"content": "<x>", "id": 99, "special": True})
    with refused("got 99 "):
        list_pieces(facts, "x")
    with pytest.raises(IntegrityError, match="not a tokenizer"):
        read_tokenizer_json(tmp_path / "none.json")


def added(content, token, **flags):
    plain = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False)
    return {"content": content, "id": token, **plain, **flags}


@given(
    st.sampled_from(["<unk>", "</s>", "<pad>"]),
    st.sampled_from(["", "\0", "\uffff", "\ufdd0", " "]),
)
def test_no_text_spells_a_special_piece(piece, before):
    """Wherever a model looks: its dictionary of words, its list of pieces, or its merges."""
    pieces = ["<unk>", "</s>", "<pad>", *"<unk>/sp d\0\uffff", "\0</s>", "</", "</s"]
    ids = {name: number for number, name in enumerate(dict.fromkeys(pieces))}
    for model in (
        models.WordLevel(ids, unk_token="<unk>"),
        models.WordPiece(ids, unk_token="<unk>"),
        models.Unigram([(name, -1.0) for name in ids], 0, False),
        models.BPE(
            ids, [("<", "/"), ("</", "s"), ("</s", ">"), ("</s>", "p")][:3], unk_token="<unk>"
        ),
        models.BPE(ids, [], unk_token="<unk>", ignore_merges=True),
    ):
        facts = json.loads(Tokenizer(model).to_str())
        facts["added_tokens"] = [
            added(name, ids[name], special=True) for name in ("<unk>", "</s>", "<pad>")
        ]
        tokenizer = TokenizerJson(
            facts, PublishedMetadata(specials={"unk": "<unk>", "eos": "</s>", "pad": "<pad>"})
        )
        found = tokenizer.encode([before + piece])[0].ids.tolist()

        assert not {1, 2} & set(found), facts["model"]["type"]
        assert tokenizer.piece(1) == "</s>"


def test_only_a_byte_level_bpe_can_be_extended(tmp_path):
    tokenizer = TokenizerJson(
        json.loads(Tokenizer(models.BPE({"a": 0, "b": 1}, [])).to_str()), PublishedMetadata()
    )
    with refused(r"expected a byte-level BPE .* got a BPE"):
        tokenizer.extend([("a", "b")], tmp_path)


def test_what_was_given_stays_and_lost_merges_are_counted():
    model = {
        "vocab": {"<": 0, "s": 1, "<s": 2, "<sx": 3, "x": 4},
        "merges": [["<", "s"], ["<s", "x"]],
        "dropout": 0.5,
    }

    facts = {
        "model": {**model, "unk_token": "s"},
        "added_tokens": [added("<s", 2, special=True)],
        "padding": {},
    }

    before = json.dumps(facts)
    hidden, lost = hide_pieces(facts, {"<s"})

    assert json.dumps(facts) == before
    assert (
        lost,
        hidden["model"]["merges"],
        hidden["model"]["dropout"],
    ) == (2, [], None)
    assert list(hidden["model"]["vocab"].values()) == [0, 1, 2, 3, 4]
    assert "<s" not in hidden["model"]["vocab"]
    assert hidden["added_tokens"][0]["content"] in hidden["model"]["vocab"]


def test_facts_come_back_and_a_changed_byte_is_noticed(tmp_path):
    facts = PublishedMetadata(
        specials={"mask": "<m>"},
        sentinels=["<e>"],
        added=["<e>"],
        spares=["<r>"],
        lower_case=True,
        padding_side="left",
        max_length=9,
        notes=["a note"],
    )

    facts.save(tmp_path)

    assert PublishedMetadata.load(tmp_path) == facts

    path = tmp_path / "published.json"
    path.write_text(path.read_text().replace("<m>", "<n>"))
    with pytest.raises(IntegrityError, match="import the tokenizer again"):
        PublishedMetadata.load(tmp_path)


def test_pieces_with_roles_are_special():
    facts = PublishedMetadata(
        specials={"mask": "<m>", "cls": "<m>"}, sentinels=["<e>"], modes={"R": "<r>"}
    )
    table = PieceTable([b" a\n", None, b"<m>\n", None, None], ["_a", "<c>", "<m>", "<e>", "<r>"])
    vocabulary = facts.vocabulary(table, {"name": "x"})

    assert vocabulary.special.tolist() == [False, True, True, True, True]
    assert (vocabulary.specials, vocabulary.sentinels, vocabulary.modes) == (
        {"mask": 2, "cls": 2},
        (3,),
        {"R": 4},
    )
    assert vocabulary.word_start.tolist() == [True, False, False, False, False]
    assert (
        vocabulary.fingerprint
        != replace(facts, sentinels=[]).vocabulary(table, {"name": "x"}).fingerprint
    )
    assert (
        vocabulary.fingerprint
        == replace(facts, notes=["guessed"]).vocabulary(table, {"name": "x"}).fingerprint
    )
    assert vocabulary.word_end.tolist() == [True, False, False, False, False]

    with refused("has no '<q>'"):
        PublishedMetadata(specials={"mask": "<q>"}).vocabulary(table, {})


def replacing(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def steps(*normalizers):
    return {"type": "Sequence", "normalizers": [*normalizers]}


@pytest.mark.parametrize(
    ("normalizer", "grows"),
    [
        (None, False),
        (steps(*(replacing(letter, letter.lower() * 3) for letter in "ABCDEFGHIJ")), False),
        (steps({"type": "NFKD"}, {"type": "Prepend", "prepend": "▁"}), False),
        (replacing("q", "b" * 10**6), True),
        (replacing(".", "b" * 10**6, "Regex"), True),
        (steps(*[replacing("q", "qq")] * 40), True),
        (steps(steps(replacing("q", "r" * 100)), steps(replacing("r", "s" * 100))), True),
        ({"type": "Prepend", "prepend": "x" * 10**6}, True),
    ],
)
def test_a_normalizer_does_not_make_a_long_text_of_a_letter(normalizer, grows):
    with refused(r"tokenizer\.json: its normalizer") if grows else nullcontext():
        refuse_growth({"normalizer": normalizer}, "tokenizer.json")
