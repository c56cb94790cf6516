"""The first token of a word under byte-level BPE, against a count of bytes."""

import numpy as np
import pytest

from clozeline.pipeline.tasks.readers import Question, TaggedWords, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tasks.window_rows import AnswerRows, TaggedRows
from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe

TAGGING = TaskFacts(name="toy", head="tagging", labels=("O", "X"), metrics=("accuracy",))
ASKING = TaskFacts(name="toy", head="span", metrics=("f1", "exact_match"), texts=2)
SENTENCES = (
    "Мама мыла раму , а папа читал газету .",
    "वह घर जा रहा है और मैं यहाँ हूँ ।",
    "我 喜欢 吃 苹果 和 香蕉 。",
    "ذهب الولد إلى المدرسة صباحا .",
    "the cat sat , café naïve , on 🙂 mats .",
    "ვარდი და ია ბაღში .",
)
ALPHABET = byte_alphabet()


def bytes_of(tokenizer, token):
    return bytes(ALPHABET[character] for character in tokenizer.piece(token))


def by_bytes(tokenizer, words):
    """Return the token that holds the first byte of each word, counted in bytes."""
    ids = tokenizer.encode([" ".join(words)])[0].ids.tolist()
    holder = [number for number, token in enumerate(ids) for _ in bytes_of(tokenizer, token)]
    starts = np.cumsum([0, *(len(word.encode()) + 1 for word in words)])[:-1]
    return [holder[start] for start in starts.tolist()]


def tagged(tokenizer, words, length=1024):
    """Return the tokens of a sentence that have tags."""
    kind = TaggedRows(TAGGING, Form(FRAMES["gpt"], length), tokenizer, "corpus", "f.txt")
    item = TaggedWords(tuple(words), (1,) * len(words), 0)
    (built,) = kind.build(item, tokenizer.encode(kind.texts(item)))
    return list(built.columns["tag_positions"])


@pytest.fixture(scope="module", params=[420, 480, 2000])
def trained(request, tmp_path_factory):
    """Few merges leave single bytes, some join a space and the first byte of a letter, many make whole words."""
    options = ByteBpe.Options(size=request.param, reserved=0)
    return ByteBpe.train(list(SENTENCES) * 3, options, tmp_path_factory.mktemp("bytes"))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_word_begins_at_the_token_of_its_first_byte(trained, sentence):
    words = sentence.split()
    assert tagged(trained, words) == by_bytes(trained, words)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_answers_have_all_their_bytes(trained, sentence):
    """The first token of an answer holds its first byte, and the last token its last byte."""
    words = sentence.split()
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    ids = trained.encode([sentence])[0].ids.tolist()
    holder = [number for number, token in enumerate(ids) for _ in bytes_of(trained, token)]
    kind = AnswerRows(ASKING, Form(FRAMES["bert"], 1024), trained, "corpus", "f.json")
    for word, start in zip(words, starts, strict=False):
        item = Question("?", sentence, ((start, word),), "k", 0)
        (built,) = kind.build(item, trained.encode(kind.texts(item)))
        begin = built.columns["answer_places"][1]
        first = holder[len(sentence[:start].encode())]
        last = holder[len(sentence[: start + len(word)].encode()) - 1]
        assert [index - begin for index in built.columns["answer_span"]] == [first, last]
        offsets = built.columns["offsets"].reshape(-1, 2)
        assert sentence[offsets[begin + first][0] : offsets[begin + last][1]] == word
