from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.pipeline.tasks.head_rows import TargetRows, TurnRows, part_ids
from clozeline.pipeline.tasks.readers import Dialogue, Part, Rejected, SourceTarget, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form, Frame
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from tests.pipeline.task_files import SPECIALS, WORDS, write_vocabulary

FACTS = TaskFacts(name="toy", head="lm", metrics=("exact_match",))
ENDING = Frame("encoder_decoder", (), (), ("sep",), segments=False)
"""The frame of T5 with another token at the end: the small vocabulary has no `</s>`."""
EOS = len(SPECIALS)
END = Part("", is_target=True, ids=(EOS,))


def dialogue(index: int, *parts: Part, is_framed: bool = False) -> Dialogue:
    return Dialogue((("user", "a"), ("assistant", "b")), index, parts=parts, is_framed=is_framed)


TWO = dialogue(
    0, Part("a film"), Part(" good [EOS] plot", is_target=True), END, Part("very"), Part("bad", is_target=True), END
)


@pytest.fixture
def words(tmp_path: Path) -> Tokenizer:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("".join(f"{piece}\n" for piece in (*SPECIALS, "[EOS]", *WORDS)), encoding="utf-8")
    return import_tokenizer(vocabulary, tmp_path / "ours")


def ids(words: Tokenizer, text: str) -> list[int]:
    found: list[int] = words.encode([text])[0].ids.tolist()
    return found


def test_the_loss_is_on_the_answers_alone(words: Tokenizer) -> None:
    """A special token's name in a message stays text; the template's is the token, and has a loss."""
    kind = TurnRows(FACTS, Form(FRAMES["gpt"], 32), words, "corpus", "f")
    (row,) = list(kind.rows([TWO]))
    parts = [(ids(words, "a film"), False), (ids(words, "good [EOS] plot"), True), ([EOS], True),
             (ids(words, "very"), False), (ids(words, "bad"), True), ([EOS], True)]  # fmt: skip
    expected = [(token, is_target) for tokens, is_target in parts for token in tokens]
    assert EOS not in ids(words, "good [EOS] plot")
    assert row["input_ids"].tolist() == [token for token, _ in expected]
    assert row["label_positions"].tolist() == [index for index, (_, is_target) in enumerate(expected) if is_target]
    assert row["label_ids"].tolist() == [token for token, is_target in expected if is_target]
    assert json.loads(row["record"].tobytes()) == {"source": "a film good [EOS] plotvery", "targets": ["bad"]}
    assert kind.counts["notes"] == {"labels": len(row["label_ids"])}


def test_a_row_loses_its_end_and_counts_it(words: Tokenizer) -> None:
    kind = TurnRows(FACTS, Form(FRAMES["gpt"], 8), words, "corpus", "f")
    long = dialogue(1, Part("a film with no heart . one plot"), Part("bad", is_target=True), END)
    empty = dialogue(2, Part("a"), Part("\u0300", is_target=True), END)
    (row,) = list(kind.rows([TWO, long, empty]))
    assert len(row["input_ids"]) == 8
    assert kind.counts["refused"] == {"too_long": 1, "no_tokens": 1}
    assert kind.counts["truncated_tokens"] == 2 + len(ids(words, "good [EOS] plot")) + 4 - 8


def test_a_source_and_its_target(words: Tokenizer) -> None:
    """The frame ends the target, which is trained with its end; a pair is a dialogue of one turn."""
    kind = TurnRows(FACTS, Form(FRAMES["gpt"], 16), words, "corpus", "f")
    (row,) = list(kind.rows([SourceTarget("good film", ("dull", "bad"), "a ", 0)]))
    dull = ids(words, "dull")
    assert row["input_ids"].tolist() == [*ids(words, "a good film"), *dull, EOS]
    assert row["label_ids"].tolist() == [*dull, EOS]
    assert json.loads(row["record"].tobytes()) == {"source": "good film", "targets": ["dull", "bad"]}


def test_an_encoder_decoder_has_a_row_for_each_answer(words: Tokenizer) -> None:
    """All that comes before an answer is its source; each side ends once."""
    kind = TargetRows(FACTS, Form(FRAMES["t5"], 32), words, "corpus", "f")
    rows = sorted(kind.rows([TWO]), key=lambda row: int(row.fixed["document_offset"]))
    first, second = [*ids(words, "a film"), EOS], [*ids(words, "good [EOS] plot"), EOS]
    assert [row["input_ids"].tolist() for row in rows] == [first, [*first[:-1], *second, *ids(words, "very"), EOS]]
    assert [row["target_ids"].tolist() for row in rows] == [second, [*ids(words, "bad"), EOS]]
    assert len({int(row.fixed["uid"]) for row in rows}) == 2
    assert [json.loads(row["record"].tobytes())["targets"] for row in rows] == [["good [EOS] plot"], ["bad"]]
    assert kind.counts["windows"] == 1


def test_an_answer_that_opens_a_dialogue_has_no_source(words: Tokenizer) -> None:
    """An encoder has nothing to read there: the later answers are rows, and the first is counted."""
    opened = dialogue(3, Part("good", is_target=True), END, *[Part("very"), Part("bad", is_target=True), END] * 2)
    kind = TargetRows(FACTS, Form(ENDING, 16), words, "corpus", "f")
    rows = list(kind.rows([opened, dialogue(4, Part("good", is_target=True))]))
    assert [row["target_ids"].tolist() for row in rows] == [[*ids(words, "bad"), EOS, 3]] * 2
    assert kind.counts["notes"] == {"answers_without_source": 1}
    assert kind.counts["refused"] == {"no_tokens": 1}
    turns = TurnRows(FACTS, Form(FRAMES["gpt"], 16), words, "corpus", "f")
    (row,) = turns.rows([opened])
    assert row["label_ids"].tolist() == [EOS, *[*ids(words, "bad"), EOS] * 2]


def test_both_texts_end(tmp_path: Path) -> None:
    """Both are cut to the length, and keep the end; all accepted targets are recorded uncut."""
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    kind = TargetRows(FACTS, Form(ENDING, 4), tokenizer, "corpus", "f")
    items = [
        SourceTarget("good film", ("dull", "bad"), "a ", 0), SourceTarget("film", ("a very good plot .",), "", 1),
        SourceTarget("\u0300", ("a",), "", 2), SourceTarget("a", ("\u0300",), "", 3), Rejected("fields", 4),
    ]  # fmt: skip
    rows = kind.rows(items)
    words = {json.loads(row["record"].tobytes())["source"]: row for row in rows}
    ids = tokenizer.encode(["a good film", "dull", "a very good"])
    assert words["good film"]["input_ids"].tolist() == [*ids[0].ids, 3]
    assert words["good film"]["target_ids"].tolist() == [*ids[1].ids, 3]
    assert json.loads(words["good film"]["record"].tobytes())["targets"] == ["dull", "bad"]
    assert words["film"]["target_ids"].tolist() == [*ids[2].ids, 3]
    assert kind.counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert kind.counts["notes"] == {"targets_cut": 1}
    assert kind.counts["truncated_tokens"] == 2


def test_texts_and_special_tokens_keep_their_order(tmp_path: Path) -> None:
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    parts = [Part("a film"), Part("", ids=(3,)), Part("[SEP] bad", is_target=True)]
    encodings = tokenizer.encode([part.text for part in parts if part.ids is None])
    first, end, last = part_ids(parts, encodings, tokenizer.vocabulary)
    assert (first.tolist(), end.tolist()) == (encodings[0].ids.tolist(), [3])
    assert last.tolist() == encodings[1].ids.tolist()
    assert 3 not in last


def test_a_template_that_writes_all_special_tokens_gets_no_frame(words: Tokenizer) -> None:
    """What follows the last answer stays, and no loss is on it."""
    kind = TurnRows(FACTS, Form(FRAMES["gpt"], 32), words, "corpus", "f")
    encoded = [Part("a", ids=(7, 8)), Part("b", is_target=True, ids=(9,)), Part("c", ids=(7,))]
    (row,) = list(kind.rows([dialogue(0, *encoded, is_framed=True)]))
    assert row["input_ids"].tolist() == [7, 8, 9, 7]
    assert (row["label_positions"].tolist(), row["label_ids"].tolist()) == ([2], [9])
    assert json.loads(row["record"].tobytes()) == {"source": "a", "targets": ["b"]}
