"""Rows of dialogues and of sources with targets."""

import json

from clozeline.extensions.tasks.readers import (
    Dialogue,
    Rejected,
    SourceTarget,
    TaskMetadata,
    TemplatePart,
)
from clozeline.extensions.tasks.rows.lm import TargetRows, TurnRows
from tests.extensions.tasks.rows.built_rows import EOS, built, ids

TEXTS = TaskMetadata(name="toy", head="lm", metrics=("exact_match",))


END = TemplatePart("", is_target=True, ids=(EOS,))


def dialogue(index, *parts, **more):
    return Dialogue((("user", "a"), ("assistant", "b")), index, parts=parts, **more)


TWO = dialogue(
    0,
    TemplatePart("a film"),
    TemplatePart(" good [EOS] plot", is_target=True),
    END,
    TemplatePart("very"),
    TemplatePart("bad", is_target=True),
    END,
)


def test_the_loss_is_on_the_answers_alone(words):
    """A special token's name in a message stays text.

    The template's is the token, and has a loss.
    """
    counts, (row,) = built(TurnRows, TEXTS, "gpt", 32, words, [TWO])
    parts = [
        (ids(words, "a film"), False),
        (ids(words, "good [EOS] plot"), True),
        ([EOS], True),
        (ids(words, "very"), False),
        (ids(words, "bad"), True),
        ([EOS], True),
    ]

    expected = [(token, is_target) for tokens, is_target in parts for token in tokens]

    assert EOS not in ids(words, "good [EOS] plot")
    assert row["input_ids"].tolist() == [token for token, _ in expected]
    assert row["label_positions"].tolist() == [
        index for index, (_, is_target) in enumerate(expected) if is_target
    ]
    assert row["label_ids"].tolist() == [token for token, is_target in expected if is_target]
    assert json.loads(row["record"].tobytes()) == {
        "source": "a film good [EOS] plotvery",
        "targets": ["bad"],
    }
    assert counts["notes"] == {"labels": len(row["label_ids"])}


def test_a_row_loses_its_end_and_counts_it(words):
    long = dialogue(
        1, TemplatePart("a film with no heart . one plot"), TemplatePart("bad", is_target=True), END
    )
    empty = dialogue(2, TemplatePart("a"), TemplatePart("\u0300", is_target=True), END)
    counts, (row,) = built(TurnRows, TEXTS, "gpt", 8, words, [TWO, long, empty])

    assert len(row["input_ids"]) == 8
    assert counts["refused"] == {"too_long": 1, "no_tokens": 1}
    assert counts["truncated_tokens"] == 2 + len(ids(words, "good [EOS] plot")) + 4 - 8


def test_a_source_and_its_target(words):
    """The frame ends the target, which is trained with its end.

    A pair is a dialogue of one turn.
    """
    items = [SourceTarget("good film", ("dull", "bad"), "a ", 0)]
    _, (row,) = built(TurnRows, TEXTS, "gpt", 16, words, items)
    dull = ids(words, "dull")

    assert row["input_ids"].tolist() == [*ids(words, "a good film"), *dull, EOS]
    assert row["label_ids"].tolist() == [*dull, EOS]
    assert json.loads(row["record"].tobytes()) == {
        "source": "good film",
        "targets": ["dull", "bad"],
    }


def test_an_encoder_decoder_has_a_row_for_each_answer(words):
    """All that comes before an answer is its source; each side ends once."""
    counts, rows = built(TargetRows, TEXTS, "t5", 32, words, [TWO])
    rows = sorted(rows, key=lambda row: int(row.fixed["document_offset"]))
    first = [*ids(words, "a film"), EOS]
    second = [*ids(words, "good [EOS] plot"), EOS]

    assert [row["input_ids"].tolist() for row in rows] == [
        first,
        [*first[:-1], *second, *ids(words, "very"), EOS],
    ]
    assert [row["target_ids"].tolist() for row in rows] == [second, [*ids(words, "bad"), EOS]]
    assert len({int(row.fixed["uid"]) for row in rows}) == 2
    assert [json.loads(row["record"].tobytes())["targets"] for row in rows] == [
        ["good [EOS] plot"],
        ["bad"],
    ]
    assert counts["windows"] == 1


def test_an_answer_that_opens_a_dialogue_has_no_source(words):
    """An encoder has nothing to read there: the later answers are rows, and the first is
    counted."""
    opened = dialogue(
        3,
        TemplatePart("good", is_target=True),
        END,
        *[TemplatePart("very"), TemplatePart("bad", is_target=True), END] * 2,
    )

    items = [opened, dialogue(4, TemplatePart("good", is_target=True))]
    counts, rows = built(TargetRows, TEXTS, "t5", 16, words, items)

    assert [row["target_ids"].tolist() for row in rows] == [[*ids(words, "bad"), EOS]] * 2
    assert counts["notes"] == {"answers_without_source": 1}
    assert counts["refused"] == {"no_tokens": 1}

    _, (row,) = built(TurnRows, TEXTS, "gpt", 16, words, [opened])

    assert row["label_ids"].tolist() == [EOS, *[*ids(words, "bad"), EOS] * 2]


def test_source_and_target_end(words):
    """Both are cut to the length, and keep the end; all accepted targets are recorded uncut."""
    items = [
        SourceTarget("good film", ("dull", "bad"), "a ", 0),
        SourceTarget("film", ("a very good plot .",), "", 1),
        SourceTarget("\u0300", ("a",), "", 2),
        SourceTarget("a", ("\u0300",), "", 3),
        Rejected("fields", 4),
    ]

    counts, rows = built(TargetRows, TEXTS, "t5", 4, words, items)
    by_source = {json.loads(row["record"].tobytes())["source"]: row for row in rows}
    first = by_source["good film"]
    second = by_source["film"]

    assert first["input_ids"].tolist() == [*ids(words, "a good film"), EOS]
    assert first["target_ids"].tolist() == [*ids(words, "dull"), EOS]
    assert json.loads(first["record"].tobytes())["targets"] == ["dull", "bad"]
    assert second["target_ids"].tolist() == [*ids(words, "a very good"), EOS]
    assert counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert (counts["notes"], counts["truncated_tokens"]) == ({"targets_cut": 1}, 2)


def test_a_template_that_writes_all_special_tokens_gets_no_frame(words):
    """What follows the last answer stays, and no loss is on it."""
    encoded = [
        TemplatePart("a", ids=(7, 8)),
        TemplatePart("b", is_target=True, ids=(9,)),
        TemplatePart("c", ids=(7,)),
    ]

    _, (row,) = built(TurnRows, TEXTS, "gpt", 32, words, [dialogue(0, *encoded, is_framed=True)])

    assert row["input_ids"].tolist() == [7, 8, 9, 7]
    assert (row["label_positions"].tolist(), row["label_ids"].tolist()) == ([2], [9])
    assert json.loads(row["record"].tobytes()) == {"source": "a", "targets": ["b"]}

    _, (row,) = built(TurnRows, TEXTS, "gpt", 32, words, [dialogue(0, *encoded)])

    assert row["input_ids"].tolist() == [7, 8, 9, 7, EOS], "usually the frame ends it"
