"""Tokenizers of the source of a model and of the shards: equal, one with further tokens, another
one, or none."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from clozeline.errors import ClozelineError
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import KnownIds, compare_ids, refuse_other_ids
from tests.refusals import refused
from tests.train.masked_set import RESERVED, write_characters


def tokenizer(folder, letters):
    return write_characters(folder, letters).fingerprint


def compared(folder, theirs, ours):
    """Compare the tokenizers of a folder with a model and of a shard set."""
    tokenizer(folder / "model" / "tokenizer", theirs)
    fingerprint = tokenizer(folder / "train_tokenizer" / "tokenizer", ours)
    return compare_ids(source(folder / "model"), shard_set(folder, fingerprint), "data")


def source(folder, recorded=None):
    """The ids of a model folder of which only the tokenizer is read."""
    return TrainedModel(folder, SimpleNamespace(files=(), fingerprint=recorded)).ids


def shard_set(folder, fingerprint):
    facts = SimpleNamespace(tokenizer=SimpleNamespace(fingerprint=fingerprint))
    return SimpleNamespace(path=folder / "corrupt" / "set" / "manifest.json", manifest=facts)


def test_equal_tokenizers_need_no_word(tmp_path):
    assert compared(tmp_path, "abc", "abc") is None


def test_further_tokens_are_said(tmp_path):
    other = compared(tmp_path, "abc", "abcd")

    assert f"another tokenizer: {RESERVED + 3} ids there, {RESERVED + 4} here" in other.line()
    assert (other.known, other.size) == (RESERVED + 3, RESERVED + 4)
    assert other.parts.keys() == {RESERVED + 3}

    less = compared(tmp_path / "less", "abcd", "abc")

    assert less.parts == {}


def test_the_parts_of_further_pieces(tmp_path):
    """The text of a merged piece was two pieces.

    A special token, and half of a character, have no text.
    """
    texts = ["low lower lowest é"] * 9
    there = tmp_path / "model" / "tokenizer"
    size = len(special_pieces(16)) + 256 + 2
    trained = ByteBpe.train(texts, ByteBpe.Options(size=size), there)
    save_tokenizer(trained, "byte_bpe", there)
    low = trained.encode([" low"])[0].ids.tolist()
    rest = trained.encode(["er"])[0].ids.tolist()
    pieces = [trained.piece(token) for token in low]
    folder = tmp_path / "train_tokenizer" / "tokenizer"
    larger = trained.extend(
        [
            (pieces[0], pieces[1]),
            ("e", "r"),
            ("Ã", "x"),
        ],
        folder,
    )
    save_tokenizer(larger, "byte_bpe", folder)
    other = compare_ids(
        source(tmp_path / "model"), shard_set(tmp_path, larger.vocabulary.fingerprint), "data"
    )

    assert list(other.parts.values()) == [tuple(low[:2]), tuple(rest), ()]


def test_another_piece_at_an_id_is_refused(tmp_path):
    with refused(rf"id {RESERVED + 1} is 'b' there, 'x' in the set"):
        compared(tmp_path, "abc", "axc")


@pytest.mark.parametrize(
    ("recorded", "kept_there", "kept_here", "message"),
    [
        ("same", False, False, None),
        ("other", False, True, "cannot be compared"),
        ("other", True, False, "cannot be compared"),
        (None, False, True, "cannot be compared"),
        (None, True, False, "cannot be compared"),
        ("exchanged", True, True, "expected the tokenizer"),
    ],
)
def test_whether_ids_fit_does_not_hang_on_a_file_that_is_found(
    tmp_path, recorded, kept_there, kept_here, message
):
    fingerprint = tokenizer(tmp_path / "train_tokenizer" / "tokenizer", "abc")
    other = tokenizer(tmp_path / "model" / "tokenizer", "abd")
    recorded = {"same": fingerprint, "other": other, "exchanged": "f" * 64}.get(recorded)
    for kept, folder in ((kept_there, "model"), (kept_here, "train_tokenizer")):
        if not kept:
            shutil.rmtree(tmp_path / folder)

    with nullcontext() if message is None else pytest.raises(ClozelineError, match=message):
        refuse_other_ids(source(tmp_path / "model", recorded), shard_set(tmp_path, fingerprint), "")


def test_more_ids_are_refused_where_nothing_can_be_added(tmp_path):
    tokenizer(tmp_path / "model" / "tokenizer", "abc")
    fingerprint = tokenizer(tmp_path / "train_tokenizer" / "tokenizer", "abcd")
    with refused(f"{RESERVED + 3} ids there, {RESERVED + 4} "):
        refuse_other_ids(source(tmp_path / "model"), shard_set(tmp_path, fingerprint), "data")


@pytest.mark.parametrize("changed", [{"specials": {"pad": 9}}, {"sentinels": (8, 7)}])
def test_equal_pieces_with_other_roles_are_refused(tmp_path, changed):
    fingerprint = tokenizer(tmp_path / "train_tokenizer" / "tokenizer", "abc")
    there = load_tokenizer(tmp_path / "train_tokenizer" / "tokenizer")
    there.vocabulary = replace(there.vocabulary, fingerprint="e" * 64, **changed)
    with refused("(pad|sentinel 0) is id [89] there, "):
        refuse_other_ids(
            KnownIds("a run", "e" * 64, lambda: there), shard_set(tmp_path, fingerprint), "data"
        )
