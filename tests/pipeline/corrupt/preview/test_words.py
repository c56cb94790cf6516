"""Texts as tokens that people can read."""

import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.corrupt.preview.words import TokenizerCodec, WordCodec
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS
from tests.pipeline.tokenize.published.published_files import t5_model


@given(
    st.lists(
        st.lists(st.text("abc#", min_size=1, max_size=4), max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_ids_and_words_are_inverse(texts):
    words = WordCodec(" ".join(text) for text in texts)

    for text in texts:
        ids = words.ids(" ".join(text))
        assert words.words(ids) == text
        assert not words.vocabulary.special[ids].any()
        assert words.vocabulary.word_start[ids].tolist() == [
            not word.startswith("##") for word in text
        ]

    different = {word for text in texts for word in text}

    assert words.vocabulary.size == len(SPECIALS) + SENTINELS + len(MODES) + len(different)


def test_a_document_has_the_tokens_of_its_entire_text(tmp_path):
    """SentencePiece puts a space in front of each text that it is given: sentences must not be
    encoded one by one."""
    file = t5_model(tmp_path)
    sentences = ("the cat sat.", " it ran away.")
    codec = TokenizerCodec(import_tokenizer(file, tmp_path / "ours"))
    ids, starts = codec.document(sentences)
    library = sentencepiece.SentencePieceProcessor(model_file=str(file))

    assert ids == library.encode("".join(sentences))
    assert len(starts) == 2
    assert library.decode(ids[: starts[1]]).rstrip() == sentences[0]
    assert codec.document(["", ""]) == ([], [])


def test_parts_of_a_text_are_joined_as_people_write_them():
    words = WordCodec(["the un ##believ ##able cat ( sat ) , 你 。 ## # ... !"])
    ids = words.ids("the un ##believ ##able cat ( sat ) , 你 。 ## # !")
    assert words.decode_part(ids) == " the unbelievable cat ( sat), 你。 ## #!"
    assert words.piece(ids[2]) == "##believ"
    assert words.decoder is words
