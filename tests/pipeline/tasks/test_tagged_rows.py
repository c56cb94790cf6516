"""Tags at first tokens, against words encoded alone; long sentences lose no word and learn none twice."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.rows import Row, Rows
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tasks.window_rows import NO_WORD, TaggedRows
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe

FACTS = TaskFacts(name="toy", head="tagging", labels=("O", "B-X", "I-X"), metrics=("entity_f1",))
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "##a", "able", "to", ".", "-")
WORDS = ("unable", "to", "unaa", "un-able", "able", ".", "to.", "\u200d")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    return import_tokenizer(path, tmp_path / "ours")


def made(
    tokenizer: Tokenizer, items: list[Any], length: int = 64, stride: int | None = None
) -> tuple[TaggedRows, Rows]:
    kind = TaggedRows(FACTS, Form(FRAMES["bert"], length, stride), tokenizer, "corpus", "default/train.txt")
    return kind, kind.rows(items)


def record(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["record"].tobytes())
    return found


def sentence(seed: int, index: int, words: int) -> TaggedWords:
    draw = random.Random(f"{seed} {index}")
    return TaggedWords(tuple(draw.choices(WORDS, k=words)), tuple(draw.choices(range(3), k=words)), index)


def test_the_first_token_of_a_word_has_its_tag(tokenizer: Tokenizer) -> None:
    item = TaggedWords(("unable", "\u200d", "to."), (1, 2, 0), 4)
    kind, rows = made(tokenizer, [item])
    row = rows.row(0)
    assert row["input_ids"].tolist() == [2, 5, 6, 9, 10, 3]
    assert row["tag_positions"].tolist() == [1, 3]
    assert row["tags"].tolist() == [1, 0]
    assert row["word_numbers"].tolist() == [NO_WORD, 0, 0, 2, 2, NO_WORD]
    assert record(row) == {"first": 0, "words": ["unable", "\u200d", "to."], "tags": [1, 2, 0]}
    assert kind.counts["notes"] == {"words_without_tokens": 1}
    assert kind.counts["labels"] == {"B-X": 1, "O": 1}
    assert list(rows.columns) == [feature.name for feature in TaggedRows.features(FACTS, FRAMES["bert"])]


@pytest.mark.parametrize("seed", range(8))
def test_rows_equal_words_encoded_alone(tokenizer: Tokenizer, seed: int) -> None:
    items = [sentence(seed, index, 1 + index % 7) for index in range(20)]
    _, rows = made(tokenizer, items)
    by_place = {tuple(record(row)["words"]): row for row in rows}
    for item in items:
        pieces = [encoding.ids.tolist() for encoding in tokenizer.encode(item.words)]
        if not any(pieces):
            continue
        row = by_place[item.words]
        assert row["input_ids"].tolist() == [2, *[token for word in pieces for token in word], 3]
        firsts = [1 + sum(map(len, pieces[:word])) for word, tokens in enumerate(pieces) if tokens]
        assert row["tag_positions"].tolist() == firsts
        numbers = [word for word, tokens in enumerate(pieces) for _ in tokens]
        assert row["word_numbers"].tolist() == [NO_WORD, *numbers, NO_WORD]


@pytest.mark.parametrize(("length", "stride"), [(9, None), (9, 7), (12, 2), (8, 30)])
def test_long_sentences_become_windows(tokenizer: Tokenizer, length: int, stride: int | None) -> None:
    """Their own words, put together by `first`, are the sentence; windows begin and end between words."""
    items = [sentence(1, index, 30) for index in range(12)]
    kind, rows = made(tokenizer, items, length, stride)
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
            assert tagged == [word for word in own if len(tokenizer.encode([item.words[word]])[0].ids)]
            assert row["tags"].tolist() == [item.tags[word] for word in tagged]
            before = row["word_numbers"][row["tag_positions"].astype(int) - 1].tolist()
            assert all(word != other for word, other in zip(tagged, before, strict=True))


def test_a_word_longer_than_a_row_is_cut(tokenizer: Tokenizer) -> None:
    item = TaggedWords(("un" + "able" * 20, "to"), (1, 0), 0)
    kind, rows = made(tokenizer, [item], 8)
    assert kind.counts["truncated"] == 1
    assert sorted(record(row)["first"] for row in rows) == [0, 1]


def test_words_in_running_text_keep_their_space(tmp_path: Path) -> None:
    """Byte-level BPE writes most words with the space before them: only the first word of a sentence has none."""
    texts = ["the cat sat on the mat and the cat ran"] * 20
    tokenizer = ByteBpe.train(texts, ByteBpe.Options(size=440), tmp_path)
    item = TaggedWords(("the", "cat", "sat"), (0, 1, 2), 0)
    _, rows = made(tokenizer, [item])
    row = rows.row(0)
    assert row["input_ids"][1:-1].tolist() == tokenizer.encode(["the cat sat"])[0].ids.tolist()
    assert row["word_numbers"][row["tag_positions"]].tolist() == [0, 1, 2]
    assert tokenizer.piece(int(row["input_ids"][row["tag_positions"][1]])).endswith("cat")


def test_every_row_is_an_example_or_counted(tokenizer: Tokenizer) -> None:
    items = [TaggedWords(("to",), (0,), 0), Rejected("fields", 1), TaggedWords(("\u200d", "\u200d"), (0, 0), 2)]
    kind, rows = made(tokenizer, items)
    assert kind.counts["rows_in"] == 3
    assert kind.counts["examples"] == len(rows) == 1
    assert kind.counts["refused"] == {"fields": 1, "no_tokens": 1}
    assert np.array_equal(rows.fixed["uid"], made(tokenizer, items[:1])[1].fixed["uid"])
