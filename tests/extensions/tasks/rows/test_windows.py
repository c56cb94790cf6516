"""Windows of answers and tagged words against slow searches and BERT's loops, and what is
counted."""

import doctest
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clozeline.extensions.tasks.rows._windows
from clozeline.extensions.tasks.readers import Question, Rejected, TaggedWords, TaskMetadata
from clozeline.extensions.tasks.rows._windows import NO_WORD, assign_to_windows, sliding_windows
from clozeline.extensions.tasks.rows.span import AnswerRows
from clozeline.extensions.tasks.rows.tagging import TaggedRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.token_spans import token_spans
from tests.pipeline.task_files import SPECIALS, WORDS, write_vocabulary


def slow_window(windows, token):
    best = None
    number = -1

    for index, (start, end) in enumerate(windows):
        if start <= token < end:
            score = min(token - start, end - 1 - token) + 0.01 * (end - start)
            if best is None or score > best + 1e-9:
                best = score
                number = index

    return number


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_windows_and_their_tokens_are_those_of_bert(tokens, room, step):
    expected = []
    start = 0
    while start < tokens:
        length = min(tokens - start, room)
        expected.append((start, start + length))
        if start + length == tokens:
            break
        start += min(length, step)

    found = sliding_windows([1] * tokens, room, step)

    assert found == expected
    assert assign_to_windows(found, [1] * tokens).tolist() == [
        slow_window(found, token) for token in range(tokens)
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 12), st.integers(1, 12))
def test_windows_of_words(sizes, room, step):
    """No word is left out or begun twice, each window is as full as can be, and words of a window
    follow each other."""
    found = sliding_windows(sizes, room, step)

    assert found[0][0] == 0
    assert found[-1][1] == len(sizes)

    for number, (start, end) in enumerate(found):
        inside = sum(sizes[start:end])

        assert end > start
        assert inside <= room or end == start + 1
        assert end == len(sizes) or inside + sizes[end] > room

        if number:
            before = found[number - 1]
            assert before[0] < start <= before[1]
            assert end > before[1]
            assert sum(sizes[before[0] : start]) >= step or start == before[1]

    owner = assign_to_windows(found, sizes).tolist()

    assert owner == sorted(owner)
    assert all(found[number][0] <= index < found[number][1] for index, number in enumerate(owner))


def test_spans_without_tokens():
    assert token_spans("", np.zeros(0, np.int64)).shape == (0, 2)
    assert not doctest.testmod(
        clozeline.extensions.tasks.rows._windows, extraglobs={"np": np}
    ).failed


def slow_spans(text, starts):
    found = []

    for start in starts:
        later = [other for other in starts if other > start]
        end = min(later) if later else len(text)
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        found.append([start, end])

    return found


@pytest.mark.parametrize("seed", range(40))
def test_spans_equal_a_slow_loop(seed):
    draw = random.Random(seed)
    text = "".join(draw.choice("ab \u00a0\u3042\U0001f600\t") for _ in range(draw.randint(1, 20)))
    starts = sorted(draw.choices(range(len(text)), k=draw.randint(1, 12)))
    found = token_spans(text, np.array(starts))
    slow = slow_spans(text, starts)

    assert [text[start:end] for start, end in found.tolist()] == [
        text[start:end] for start, end in slow
    ]

    filled = [index for index, (start, end) in enumerate(slow) if start < end]

    assert found[filled].tolist() == [slow[index] for index in filled]


ASKED = TaskMetadata(name="squad", head="span", metrics=("f1", "exact_match"), texts=2)


@pytest.fixture
def tokenizer(tmp_path):
    return import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")


def answered(tokenizer, length, stride=None, frame="bert"):
    return AnswerRows(ASKED, Form(FRAMES[frame], length, stride), tokenizer, "corpus", "f.json")


def question(seed, words):
    draw = random.Random(seed)
    chosen = draw.choices(WORDS[:-1], k=words)
    first = draw.randrange(words)
    last = min(words - 1, first + draw.randrange(3))
    start = len(" ".join(chosen[:first])) + (first > 0)
    return Question(
        "a good film",
        " ".join(chosen),
        ((start, " ".join(chosen[first : last + 1])),),
        str(seed),
        seed,
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("length", "stride"), [(12, None), (14, 3), (64, None)])
def test_places_lead_to_characters(tokenizer, seed, length, stride):
    item = question(seed, 20)
    kind = answered(tokenizer, length, stride)
    rows = kind.rows([item])
    owned = []
    inside_count = 0

    for row in rows:
        offsets = row["offsets"].reshape(-1, 2).tolist()
        places = row["answer_places"].tolist()
        begin = places[1]

        assert row["input_ids"][:begin].tolist() == [
            2,
            *(tokenizer.encode([item.question])[0].ids),
            3,
        ]
        assert row["segment_starts"].tolist() == [0, begin]
        assert places == [0, *range(begin, len(row["input_ids"]) - 1)]

        words = [item.context[first:last] for first, last in offsets[begin:-1]]

        assert [tokenizer.encode([word])[0].ids.tolist() for word in words] == [
            [one] for one in row["input_ids"][begin:-1]
        ]
        assert set(row["owned_places"].tolist()) <= set(places[1:])

        owned += [offsets[index][0] for index in row["owned_places"]]
        first, last = row["answer_span"].tolist()
        start, text = item.answers[0]
        inside = offsets[begin][0] <= start and start + len(text) <= offsets[-2][1]

        assert (last > 0) == inside

        if inside:
            inside_count += 1
            assert item.context[offsets[first][0] : offsets[last][1]] == text

        assert int(row.fixed["document_offset"]) == item.context[: offsets[begin][0]].count(" ")

        record = json.loads(row["record"].tobytes())

        assert record == {
            "id": str(seed),
            "question": item.question,
            "context": item.context,
            "answers": [text],
        }

    assert sorted(owned) == [
        0,
        *(at + 1 for at, letter in enumerate(item.context) if letter == " "),
    ]
    assert kind.counts["notes"].get("windows_with_answer", 0) == inside_count


def test_counts(tokenizer):
    """A question is cut to half of a row.

    One that has no tokens, or whose answer has none, is refused.
    """
    kind = answered(tokenizer, 16)
    long = Question(" ".join(["film"] * 30), "a good plot", (), "k", 0)
    items = [
        long,
        Question("\u0300", "a", (), "k", 1),
        Question("a", "\u0300 b", ((0, "\u0300"),), "k", 2),
        Rejected("fields", 3),
    ]

    rows = kind.rows(items)

    assert len(rows) == 1
    assert kind.counts["truncated_tokens"] == 22
    assert kind.counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert rows.row(0)["answer_span"].tolist() == [0, 0]


def test_a_question_whose_answer_fits_no_window_is_counted(tokenizer):
    kind = answered(tokenizer, 16)
    context = " ".join(WORDS[:1] * 40)
    items = [
        Question("film", context, ((0, context),), "k", 0),
        Question("film", context, ((0, WORDS[0]),), "l", 1),
        Question("film", context, (), "m", 2),
    ]

    rows = kind.rows(items)

    assert kind.counts["notes"]["questions_without_window"] == 1
    assert kind.counts["notes"]["windows_with_answer"] == 1
    assert kind.counts["notes"]["windows_without_answer"] == len(rows) - 1


TAGGED = TaskMetadata(
    name="toy", head="tagging", labels=("O", "B-X", "I-X"), metrics=("entity_f1",)
)
PIECES = (*SPECIALS, "un", "##able", "##a", "able", "to", ".", "-")
TAGGED_WORDS = ("unable", "to", "unaa", "un-able", "able", ".", "to.", "\u200d")


@pytest.fixture
def wordpieces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in PIECES))
    return import_tokenizer(path, tmp_path / "ours")


def tagged_rows(tokenizer, items, length=64, stride=None):
    kind = TaggedRows(
        TAGGED, Form(FRAMES["bert"], length, stride), tokenizer, "corpus", "default/train.txt"
    )
    return kind, kind.rows(items)


def record(row):
    return json.loads(row["record"].tobytes())


def sentence(seed, index, words):
    draw = random.Random(f"{seed} {index}")
    return TaggedWords(
        tuple(draw.choices(TAGGED_WORDS, k=words)), tuple(draw.choices(range(3), k=words)), index
    )


def test_the_first_token_of_a_word_has_its_tag(wordpieces):
    item = TaggedWords(("unable", "\u200d", "to."), (1, 2, 0), 4)
    kind, rows = tagged_rows(wordpieces, [item])
    row = rows.row(0)

    assert row["input_ids"].tolist() == [2, 5, 6, 9, 10, 3]
    assert row["tag_positions"].tolist() == [1, 3]
    assert row["tags"].tolist() == [1, 0]
    assert row["word_numbers"].tolist() == [NO_WORD, 0, 0, 2, 2, NO_WORD]
    assert record(row) == {"first": 0, "words": ["unable", "\u200d", "to."], "tags": [1, 2, 0]}
    assert kind.counts["notes"] == {"words_without_tokens": 1}
    assert kind.counts["labels"] == {"B-X": 1, "O": 1}
    assert list(rows.columns) == [
        feature.name for feature in TaggedRows.features(TAGGED, FRAMES["bert"])
    ]


@pytest.mark.parametrize(("length", "stride"), [(9, None), (9, 7), (12, 2), (8, 30)])
def test_long_sentences_become_windows(wordpieces, length, stride):
    """Their own words, put together by `first`, are the sentence.

    Windows begin and end between words.
    """
    items = [sentence(1, index, 30) for index in range(12)]
    kind, rows = tagged_rows(wordpieces, items, length, stride)

    assert kind.counts["windows"] == len(rows) - 12 > 12
    assert kind.counts["truncated"] == 0

    for item in items:
        uid = document_uid("corpus", "default/train.txt", "row", item.index)
        windows = [row for row in rows if row.fixed["document_uid"].tobytes() == uid]
        windows.sort(key=lambda row: record(row)["first"])

        assert [word for row in windows for word in record(row)["words"]] == list(item.words)
        assert [tag for row in windows for tag in record(row)["tags"]] == list(item.tags)

        for row in windows:
            assert len(row["input_ids"]) <= length

            first = record(row)["first"]

            assert int(row.fixed["document_offset"]) == first

            own = range(first, first + len(record(row)["words"]))
            tagged = row["word_numbers"][row["tag_positions"]].tolist()
            assert tagged == [word for word in own if item.words[word] != "\u200d"]
            assert row["tags"].tolist() == [item.tags[word] for word in tagged]

            before = row["word_numbers"][row["tag_positions"].astype(int) - 1].tolist()

            assert all(word != other for word, other in zip(tagged, before, strict=True))


def test_a_word_longer_than_a_row_is_cut(wordpieces):
    item = TaggedWords(("un" + "able" * 20, "to"), (1, 0), 0)
    kind, rows = tagged_rows(wordpieces, [item], 8)
    assert kind.counts["truncated"] == 1
    assert sorted(record(row)["first"] for row in rows) == [0, 1]


def test_every_sentence_is_an_example_or_counted(wordpieces):
    items = [
        TaggedWords(("to",), (0,), 0),
        Rejected("fields", 1),
        TaggedWords(("\u200d", "\u200d"), (0, 0), 2),
    ]

    kind, rows = tagged_rows(wordpieces, items)

    assert kind.counts["rows_in"] == 3
    assert kind.counts["examples"] == len(rows) == 1
    assert kind.counts["refused"] == {"fields": 1, "no_tokens": 1}
    assert np.array_equal(rows.fixed["uid"], tagged_rows(wordpieces, items[:1])[1].fixed["uid"])
