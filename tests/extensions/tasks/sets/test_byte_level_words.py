"""The first token of a word under byte-level BPE, against a count of bytes."""

import numpy as np
import pytest

from clozeline.extensions.tasks.readers import Question, TaggedWords, TaskMetadata
from clozeline.extensions.tasks.rows._windows import NO_WORD
from clozeline.extensions.tasks.rows.span import AnswerRows
from clozeline.extensions.tasks.rows.tagging import TaggedRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe

TAGGING = TaskMetadata(name="toy", head="tagging", labels=("O", "X"), metrics=("accuracy",))
ASKING = TaskMetadata(name="toy", head="span", metrics=("f1", "exact_match"), texts=2)
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
    """Few merges leave single bytes, some join a space and the first byte of a letter, many make
    whole words."""
    options = ByteBpe.Options(size=request.param, reserved=0)
    return ByteBpe.train(list(SENTENCES) * 3, options, tmp_path_factory.mktemp("bytes"))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_and_answers_have_all_their_bytes(trained, sentence):
    """Words begin at the token of their first byte, and end, as answers do, with that of their last
    one."""
    words = sentence.split()
    ids = trained.encode([sentence])[0].ids.tolist()
    pieces = [bytes(ALPHABET[character] for character in trained.piece(token)) for token in ids]
    holder = [number for number, piece in enumerate(pieces) for _ in piece]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()[:-1]
    firsts = [holder[len(sentence[:start].encode())] for start in starts]
    lasts = [
        holder[len(sentence[: start + len(word)].encode()) - 1]
        for word, start in zip(words, starts, strict=True)
    ]
    # a decoder has read a word at its last token
    for frame, expected in (
        ("t5_encoder", firsts),
        ("gpt", lasts),
    ):
        tagging = TaggedRows(TAGGING, Form(FRAMES[frame], 1024), trained, "corpus", "f.txt")
        tagged = TaggedWords(tuple(words), (1,) * len(words), 0)
        (built,) = tagging.build(tagged, trained.encode(tagging.texts(tagged)))
        numbers = built.columns["word_numbers"]

        assert [
            place for place in built.columns["tag_positions"] if numbers[place] != NO_WORD
        ] == expected

    kind = AnswerRows(ASKING, Form(FRAMES["bert"], 1024), trained, "corpus", "f.json")

    for word, start, first, last in zip(words, starts, firsts, lasts, strict=True):
        item = Question("?", sentence, ((start, word),), "k", 0)
        (built,) = kind.build(item, trained.encode(kind.texts(item)))
        begin = built.columns["answer_places"][1]
        assert [index - begin for index in built.columns["answer_span"]] == [first, last]
        offsets = built.columns["offsets"].reshape(-1, 2)
        assert sentence[offsets[begin + first][0] : offsets[begin + last][1]] == word


@pytest.mark.parametrize(
    ("tags", "metric", "expected"),
    [
        ("B-X I-X I-X O", "entity_f1", ["B-X", "I-X", "I-X", "I-X", "I-X", "O", "O"]),
        ("O B-X B-X I-X", "entity_f1", ["O", "O", "B-X", "O", "B-X", "I-X", "I-X"]),
        ("O B-X I-X I-X", "accuracy", ["O", "B-X", "B-X", "I-X", "I-X", "I-X", "I-X"]),
    ],
)
def test_a_blank_token_joins_the_rest_of_an_entity(tmp_path, tags, metric, expected):
    """`( & ) %` are seven tokens: other programs read each blank as a word, which must not cut or
    begin an entity."""
    tokenizer = ByteBpe.train(["a"], ByteBpe.Options(size=420, reserved=0), tmp_path)
    labels = ("O", "B-X", "I-X")
    facts = TaskMetadata(name="toy", head="tagging", labels=labels, metrics=(metric,))
    rows = TaggedRows(facts, Form(FRAMES["bert"], 64), tokenizer, "corpus", "f.txt")
    item = TaggedWords(
        ("(", "&", ")", "%"),
        tuple(labels.index(tag) for tag in tags.split()),
        0,
    )
    (built,) = rows.build(item, tokenizer.encode(rows.texts(item)))

    assert [labels[tag] for tag in built.columns["tags"]] == expected
    assert list(built.columns["tag_positions"]) == list(range(1, 8))
