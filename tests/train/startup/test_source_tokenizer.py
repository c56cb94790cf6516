"""Tokenizers of the source of a model and of the shards: equal, one with further tokens, another
one, or none."""

from types import SimpleNamespace

from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.pipeline.tokenize.tokenizers.character import Character
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.initial_weights import compare_tokenizers
from tests.refusals import refused

RESERVED = 154 + 256
"""Ids before those of the characters."""


def tokenizer(folder, letters):
    """Write a tokenizer with a piece for each letter; return its fingerprint."""
    folder.mkdir(parents=True)
    text = "".join(letter * (9 - place) for place, letter in enumerate(letters))
    trained = Character.train([text], Character.Options(size=RESERVED + len(letters)), folder)
    save_tokenizer(trained, "character", folder)
    return trained.vocabulary.fingerprint


def compared(folder, theirs, ours):
    """Compare the tokenizers of a folder with a model and of a shard set."""
    tokenizer(folder / "model" / "tokenizer", theirs)
    fingerprint = tokenizer(folder / "train_tokenizer" / "tokenizer", ours)
    return compare_tokenizers(source(folder / "model"), shard_set(folder, fingerprint))


def source(folder):
    """A model folder of which only the tokenizer is read."""
    return TrainedModel(folder, SimpleNamespace(files=()))


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
    other = compare_tokenizers(
        source(tmp_path / "model"), shard_set(tmp_path, larger.vocabulary.fingerprint)
    )

    assert list(other.parts.values()) == [tuple(low[:2]), tuple(rest), ()]


def test_another_piece_at_an_id_is_refused(tmp_path):
    with refused(rf"id {RESERVED + 1} is 'b' there, 'x' here; make the shards with"):
        compared(tmp_path, "abc", "axc")


def test_where_one_is_not_found_nothing_is_compared(tmp_path):
    fingerprint = tokenizer(tmp_path / "train_tokenizer" / "tokenizer", "abc")

    assert (
        compare_tokenizers(source(tmp_path / "nowhere"), shard_set(tmp_path, fingerprint)) is None
    )

    tokenizer(tmp_path / "model" / "tokenizer", "abd")

    assert compare_tokenizers(source(tmp_path / "model"), shard_set(tmp_path, "f" * 64)) is None
