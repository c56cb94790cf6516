"""Models trained by SentencePiece, converted for the `tokenizers` library, give the ids of SentencePiece."""

import random

import pytest
import sentencepiece

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import KINDS, SPACE, bytes_of
from clozeline.pipeline.tokenize.tokenizers.sentencepiece_bpe import SentencepieceBpe
from clozeline.pipeline.tokenize.tokenizers.unigram import Unigram
from tests.pipeline.tokenize.published.published_files import NASTY, corpus


@pytest.mark.parametrize("kind", [Unigram, SentencepieceBpe])
def test_ids_are_those_of_sentencepiece(tmp_path, kind):
    tokenizer = kind.train(corpus(), kind.Options(size=460), tmp_path)
    converted = tokenizer.to_tokenizers()
    # known to differ: literal special pieces and space marks
    left_out = [SPACE, *special_pieces(16)]
    texts = [text for text in (*NASTY, *corpus(), "a\nb\n\n the  cat\n") if not any(map(text.__contains__, left_out))]
    assert len(texts) > 100
    ids = [encoding.ids.tolist() for encoding in tokenizer.encode(texts)]
    assert [converted.encode(text, add_special_tokens=False).ids for text in texts] == ids
    assert [converted.decode(each) for each in ids] == texts


def test_bytes_of_pieces():
    made = lambda text, kind: KINDS(piece=text, score=0.0, type=getattr(KINDS, kind))  # noqa: E731
    assert bytes_of(made("▁a", "NORMAL")) == b" a"
    assert bytes_of(made("<0xE2>", "BYTE")) == b"\xe2"
    assert bytes_of(made("<s>", "CONTROL")) is bytes_of(made("<unk>", "UNKNOWN")) is None
    assert bytes_of(made("▁", "USER_DEFINED")) == b" "


def test_ids_are_the_librarys_and_the_order_of_texts_does_not_matter(tmp_path):
    texts = corpus()
    model = SentencepieceBpe.train(texts, SentencepieceBpe.Options(size=500), tmp_path / "a")
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a" / "spiece.model"))
    assert all(model.encode([text])[0].ids.tolist() == library.encode(text) for text in texts)
    random.Random(2).shuffle(texts)
    other = SentencepieceBpe.train(texts, SentencepieceBpe.Options(size=500), tmp_path / "b")
    assert other.vocabulary.fingerprint == model.vocabulary.fingerprint


@pytest.mark.parametrize("kind", [Unigram, SentencepieceBpe], ids=["unigram", "bpe"])
def test_errors_name_the_algorithm(kind, tmp_path):
    with pytest.raises(ConfigurationError, match=f"{kind.NAME}: size 300 is too small"):
        kind.check_size(kind.Options(size=300))
    with pytest.raises(ConfigurationError, match=f"{kind.NAME}: the sample cannot be trained on"):
        kind.train([], kind.Options(size=500), tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match=f"not a {kind.NAME} model"):
        kind.load(tmp_path)


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unigram")
    draw = random.Random(1)
    words = ["low", "lower", "newest", "widest", "don't", "état", "中文字", "...", "12", "345"]
    texts = [" ".join(draw.choices(words, k=50)) + "\n\n" + " ".join(draw.choices(words, k=50)) for _ in range(50)]
    Unigram.train(texts, Unigram.Options(size=440), folder)
    return folder


def test_ids_of_unigram_are_those_of_the_library(unigram):
    ours = Unigram.load(unigram)
    library = sentencepiece.SentencePieceProcessor(model_file=str(unigram / "spiece.model"))
    for text in ("low lower\n\nwidest  état", "<mask> 中文 x", "", " ", "345" * 50):
        ids = ours.encode([text])[0].ids.tolist()
        assert ids == library.encode(text)
        assert library.decode(ids) == text


def test_the_space_mark_goes_through_its_bytes_and_a_newline_is_a_piece(unigram):
    model = Unigram.load(unigram)
    ids = model.encode(["a\u2581 b"])[0].ids.tolist()
    assert [model.piece(token) for token in ids][1:4] == ["<0xE2>", "<0x96>", "<0x81>"]
    library = sentencepiece.SentencePieceProcessor(model_file=str(unigram / "spiece.model"))
    assert library.decode(ids) == "a\u2581 b"
    newlines = [token for token in model.encode(["low\n\nlow"])[0].ids.tolist() if model.piece(token) == "\n"]
    assert len(newlines) == 2
    assert model.vocabulary.word_start[newlines[0]]
