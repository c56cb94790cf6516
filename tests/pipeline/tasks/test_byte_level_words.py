"""The first token of a word under byte-level BPE, against word indices of transformers and a count of bytes."""

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import transformers
import zstandard
from tokenizers import pre_tokenizers

from clozeline.pipeline.tasks.readers import Question, TaggedWords, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tasks.window_rows import AnswerRows, TaggedRows
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from tests.pipeline.tokenize.tokenizers.real_texts import DATA

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


@lru_cache(maxsize=1)
def peer(tokenizer):
    model = tokenizer.to_tokenizers()
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model)


def by_transformers(tokenizer, words):
    """Return each word's first token that holds more than white space, by `word_ids` of a fast tokenizer."""
    fast = peer(tokenizer)
    spaced = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
    found = fast(spaced, is_split_into_words=True, add_special_tokens=False)
    assert found["input_ids"] == tokenizer.encode([" ".join(words)])[0].ids.tolist()
    firsts = {}
    for index, (token, word) in enumerate(zip(found["input_ids"], found.word_ids(), strict=True)):
        if bytes_of(tokenizer, token).strip():
            firsts.setdefault(word, index)
    return [firsts[word] for word in range(len(words))]


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
    assert tagged(trained, words) == by_bytes(trained, words) == by_transformers(trained, words)


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


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return import_tokenizer(Path(os.environ[DATA]) / "hf/gpt2/encoder.json", tmp_path_factory.mktemp("gpt2"))


@pytest.mark.data
@pytest.mark.skipif(DATA not in os.environ, reason=f"{DATA} names no folder of real files")
@pytest.mark.parametrize("language", ["ar", "de", "en", "es", "fr", "hi", "ru", "tr", "zh"])
def test_words_of_treebanks_by_the_pieces_of_gpt2(language, gpt2):
    packed = (Path(os.environ[DATA]) / f"tasks/ud/{language}_pud-ud-test.conllu.zst").read_bytes()
    text = zstandard.ZstdDecompressor().stream_reader(packed).read().decode()
    for block in text.split("\n\n")[:100]:
        rows = [line.split("\t") for line in block.split("\n") if line and not line.startswith("#")]
        words = [row[1] for row in rows if row[0].isdigit()]
        if words:
            assert tagged(gpt2, words) == by_bytes(gpt2, words) == by_transformers(gpt2, words)
