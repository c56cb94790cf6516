import random

import numpy as np
import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.tokenize.encode import tokenize_documents
from clozeline.pipeline.tokenize.encode.tokenize_documents import sentence_starts
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_a_part_that_is_missing_is_an_error(tokenizer, tmp_path):
    source = passes.write_parts(tmp_path / "clean", passes.documents(8), 2)
    (source.folder / "documents" / "000001.arrow").unlink()
    with pytest.raises(StorageError, match=r"000001\.arrow: missing"):
        passes.encode(source, tmp_path / "encode", tokenizer, shards=2)


def test_a_pair_keeps_its_other_side_and_an_empty_text_has_no_tokens(tokenizer):
    documents = passes.documents(6)
    documents[1] = documents[1].replace(target_text="the lazy dog")
    documents[3] = documents[3].replace(text="", target_text="a fox")
    documents[4] = documents[4].replace(target_text="")
    model = load_tokenizer(tokenizer)
    found = list(tokenize_documents.token_documents(documents, model, Regex(Regex.Options())))

    assert [item.document for item in found] == documents
    assert [model.decode(item.target_ids) for item in found] == ["", "the lazy dog", "", "", "", ""]
    assert [len(item.ids) == 0 for item in found] == [number == 3 for number in range(6)]
    assert (found[3].sentences, len(found[3].sentence_starts)) == (0, 0)


def slow(text, sentences, tokens):
    """The rule, word for word."""
    found = {0}

    for start in sentences[1:]:
        index = next((index for index, first in enumerate(tokens) if first >= start), len(tokens))
        exact = index < len(tokens) and tokens[index] == start
        if not exact and index and not text[tokens[index - 1] : start].strip():
            index -= 1
        if index < len(tokens):
            found.add(index)

    return sorted(found)


def test_against_the_slow_rule_on_random_cuts():
    draw = random.Random(2)

    for _ in range(400):
        text = "".join(draw.choices("ab. \n", k=draw.randrange(1, 40)))
        visible = [place for place in range(1, len(text)) if not text[place].isspace()]
        sentences = [
            0,
            *sorted(draw.sample(visible, min(len(visible), draw.randrange(4)))),
        ]
        tokens = [
            0,
            *sorted(draw.sample(range(1, len(text)), draw.randrange(min(len(text), 12)))),
        ]

        assert sentence_starts(text, sentences, np.array(tokens)).tolist() == slow(
            text, sentences, tokens
        )


def test_a_space_with_the_first_byte_of_a_letter_opens_the_sentence():
    """Byte-level pieces of `A. Я.`: `A` `.` and the space with one byte of the letter, its other
    byte, `.`."""
    starts = np.array([0, 1, 2, 3, 4])
    ends = np.array([1, 2, 4, 4, 5])

    assert sentence_starts("A. Я.", [0, 3], starts, ends).tolist() == [0, 2]
    assert sentence_starts(
        "A.Я.", [0, 2], np.array([0, 1, 2, 3]), np.array([1, 3, 3, 4])
    ).tolist() == [0, 2]
