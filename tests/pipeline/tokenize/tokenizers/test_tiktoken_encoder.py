"""Byte-level BPE by ranks: the ids of `tokenizers`, or no encoder."""

from __future__ import annotations

import copy
import json
import random

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers._tiktoken_encoder import _NO_TOKEN, PATTERNS, rank_encoder
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson
from tests.pipeline.tokenize.published.published_files import NASTY, byte_level

LETTERS = "elstdvmr''.,12A_é中½“\u0301ſK\u180e\x1c\x85 \t\n\u2028"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Merges between neighbours of every kind, so that a cut in another place shows."""
    folder = tmp_path_factory.mktemp("ranks")
    draw = random.Random(1)
    texts = ["".join(draw.choices(LETTERS, k=400)) for _ in range(60)]
    ByteBpe.train(texts, ByteBpe.Options(size=900, reserved=0), folder)
    return made(json.loads((folder / "tokenizer.json").read_text()))


def made(facts):
    library = Tokenizer.from_str(json.dumps(facts))
    library.encode_special_tokens = True
    return library, facts, rank_encoder(library, facts, {entry["content"] for entry in facts["added_tokens"]})


def library_ids(library, text):
    return library.encode(text, add_special_tokens=False).ids


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.one_of(st.sampled_from(LETTERS), st.characters(codec="utf-8"))))
def test_the_ids_are_those_of_the_merges(trained, text):
    library, _, encode = trained
    assert encode(text).tolist() == library_ids(library, text)


@given(pieces=st.lists(st.sampled_from([_NO_TOKEN, _NO_TOKEN[:5], _NO_TOKEN[3:], " ", "é", "\n", "letters"])))
def test_the_name_of_the_special_token_in_a_text_is_text(trained, pieces):
    library, _, encode = trained
    assert encode("".join(pieces)).tolist() == library_ids(library, "".join(pieces))


def test_the_ids_of_nasty_texts(trained, tmp_path):
    path = byte_level(tmp_path)
    library = Tokenizer(models.BPE.from_file(str(path), str(path.parent / "merges.txt")))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    imported = rank_encoder(library, json.loads(library.to_str()), {"<|endoftext|>"})
    for text in (*NASTY, "a" * 5000, "中" * 5000, " " * 5000 + "x"):
        assert trained[2](text).tolist() == library_ids(trained[0], text)
        assert imported(text).tolist() == library_ids(library, text)


def test_runs_of_blanks_that_the_patterns_cannot_go_back_are_the_librarys(trained):
    library, _, encode = trained
    text = "\n" * 1_000_000 + "x"
    single = {bytes([byte]): byte for byte in range(256)}
    quick = tiktoken.Encoding("x", pat_str=PATTERNS["gpt2"], mergeable_ranks=single, special_tokens={})
    with pytest.raises(ValueError, match="stack"):
        quick.encode_to_numpy(text, disallowed_special=())
    assert encode(text).tolist() == library_ids(library, text)


def changed(facts, change):
    facts = copy.deepcopy(facts)
    change(facts)
    return facts


def unreachable(facts):
    facts["model"]["vocab"]["qqq"] = len(facts["model"]["vocab"])


def later(facts):
    """The piece of the first merge has the last id, that of the last the first."""
    vocabulary, merges = facts["model"]["vocab"], facts["model"]["merges"]
    first, last = "".join(merges[0]), "".join(merges[-1])
    vocabulary[first], vocabulary[last] = vocabulary[last], vocabulary[first]


def two_ways(facts):
    """A piece that is merged in two ways: first with its last letter, then with its first."""
    vocabulary, merges = facts["model"]["vocab"], facts["model"]["merges"]
    merges += [["q", "q"], ["qq", "k"], ["q", "k"], ["q", "qk"]]
    for piece in ("qq", "qqk", "qk"):
        vocabulary[piece] = len(vocabulary)


def spelt_otherwise(facts):
    """The bytes of `qkz` alone merge to `qk` `z`, since that pair comes first."""
    vocabulary, merges = facts["model"]["vocab"], facts["model"]["merges"]
    merges += [["q", "k"], ["k", "z"], ["q", "kz"]]
    for piece in ("qk", "kz", "qkz"):
        vocabulary[piece] = len(vocabulary)


@pytest.mark.parametrize(
    "change",
    [
        unreachable,
        later,
        two_ways,
        spelt_otherwise,
        lambda facts: facts["added_tokens"].append({**facts["added_tokens"][0], "id": 5000, "content": "<x>"}),
        lambda facts: facts.update(normalizer={"type": "NFKC"}),
        lambda facts: facts["pre_tokenizer"].update(add_prefix_space=True),
        lambda facts: facts["pre_tokenizer"].update(use_regex=False),
        lambda facts: facts.update(pre_tokenizer={"type": "Whitespace"}),
        lambda facts: facts.update(pre_tokenizer=None),
        lambda facts: facts["model"].update(dropout=0.1),
        lambda facts: facts["model"].update(end_of_word_suffix="_"),
        lambda facts: facts["model"]["vocab"].pop("!"),
        lambda facts: facts["model"].update(type="WordPiece"),
    ],
    ids=[
        "unreachable", "later", "two ways", "spelt otherwise", "added", "normalizer", "prefix space", "no words",
        "other words", "no cutter", "dropout", "suffix", "byte", "kind",
    ],
)  # fmt: skip
def test_other_files_have_no_rank_encoder(trained, change):
    library, facts, encode = trained
    assert encode is not None
    assert rank_encoder(library, changed(facts, change), {entry["content"] for entry in facts["added_tokens"]}) is None


def test_pieces_found_in_the_text_first_have_no_rank_encoder(trained):
    library, facts, _ = trained
    assert rank_encoder(library, facts, set()) is None


@pytest.mark.parametrize(("change", "text"), [(unreachable, "qqq"), (spelt_otherwise, "qkz")])
def test_the_ids_of_refused_files_would_differ(trained, change, text):
    facts = changed(trained[1], change)
    alphabet = {letter: byte for byte, letter in bytes_to_letters().items()}
    special = {entry["content"] for entry in facts["added_tokens"]}
    ranks = {
        bytes(alphabet[letter] for letter in name): token
        for name, token in facts["model"]["vocab"].items()
        if name not in special
    }
    quick = tiktoken.Encoding("x", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    assert quick.encode_ordinary(text) != library_ids(Tokenizer.from_str(json.dumps(facts)), text)


def bytes_to_letters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(rest)}


@pytest.mark.slow
@pytest.mark.parametrize("before", ["a", "1", "."])
def test_every_character_is_a_letter_a_number_or_neither_in_both_libraries(before):
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    ranks = {bytes([byte]): byte for byte in range(256)}
    for character in characters:
        ranks.setdefault((before + character).encode(), len(ranks))
    quick = tiktoken.Encoding("x", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    cutter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for character in characters:
        whole = len(cutter.pre_tokenize_str(before + character)) == 1
        assert (len(quick.encode_ordinary(before + character)) == 1) == whole, hex(ord(character))


def test_texts_that_the_normalizer_changes_are_the_librarys(trained, tmp_path):
    """A file with NFC has an encoder by ranks for texts that are composed already."""
    facts = {**trained[1], "normalizer": {"type": "NFC"}}
    tokenizer = TokenizerJson(facts, Published())
    assert tokenizer._encode_ranks is not None
    library = Tokenizer.from_str(json.dumps(facts))
    for text in ("e\u0301l", "\u00e9l", "les e\u0301le\u0300ves"):
        assert tokenizer.encode([text])[0].ids.tolist() == library_ids(library, text)
    composed, decomposed = tokenizer.encode(["\u00e9l", "e\u0301l"])
    assert composed.ids.tolist() == decomposed.ids.tolist()
