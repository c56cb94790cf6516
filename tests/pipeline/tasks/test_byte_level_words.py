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


@pytest.fixture(scope="module", params=[420, 480, 2000])
def trained(request, tmp_path_factory):
    """Few merges leave single bytes, some join a space and the first byte of a letter, many make whole words."""
    options = ByteBpe.Options(size=request.param, reserved=0)
    return ByteBpe.train(list(SENTENCES) * 3, options, tmp_path_factory.mktemp("bytes"))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_and_answers_have_all_their_bytes(trained, sentence):
    """A word begins at the token of its first byte, and an answer ends with the token of its last one."""
    words, ids = sentence.split(), trained.encode([sentence])[0].ids.tolist()
    pieces = [bytes(ALPHABET[character] for character in trained.piece(token)) for token in ids]
    holder = [number for number, piece in enumerate(pieces) for _ in piece]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()[:-1]
    firsts = [holder[len(sentence[:start].encode())] for start in starts]
    tagging = TaggedRows(TAGGING, Form(FRAMES["gpt"], 1024), trained, "corpus", "f.txt")
    tagged = TaggedWords(tuple(words), (1,) * len(words), 0)
    (built,) = tagging.build(tagged, trained.encode(tagging.texts(tagged)))
    assert list(built.columns["tag_positions"]) == firsts
    kind = AnswerRows(ASKING, Form(FRAMES["bert"], 1024), trained, "corpus", "f.json")
    for word, start, first in zip(words, starts, firsts, strict=True):
        item = Question("?", sentence, ((start, word),), "k", 0)
        (built,) = kind.build(item, trained.encode(kind.texts(item)))
        begin, last = built.columns["answer_places"][1], holder[len(sentence[: start + len(word)].encode()) - 1]
        assert [index - begin for index in built.columns["answer_span"]] == [first, last]
        offsets = built.columns["offsets"].reshape(-1, 2)
        assert sentence[offsets[begin + first][0] : offsets[begin + last][1]] == word
