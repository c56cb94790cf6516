"""Golden cases that SQuAD's official scripts were run on, and answers cut from texts by perfect
scores."""

import doctest
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.extensions.tasks.heads.span import AskedQuestion, SpanTaskHead, questions_of
from clozeline.extensions.tasks.readers import Question, TaskMetadata
from clozeline.extensions.tasks.rows.span import AnswerRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.extensions.tasks.task_heads import _squad_metrics
from clozeline.extensions.tasks.task_heads._squad_metrics import (
    best_threshold,
    exact_match,
    token_f1,
)
from clozeline.extensions.tasks.task_heads._task_head import Judged
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.train.data.stream.collate import Collate
from tests.pipeline.task_files import SPECIALS
from tests.shard_sets import roles_of
from tests.train.data.stream.test_collate import SPECIAL

V1 = TaskMetadata(name="squad", head="span", metrics=("f1", "exact_match"), texts=2)
V2 = TaskMetadata(
    name="squad", head="span", metrics=("f1", "exact_match"), texts=2, unanswerable=True
)
ROBOT = (
    "Ro\u0301bot \U0001f600\u00a0ate 北京烤鸭 and 1,000 ducks (ducks) in  the\tpark; the robot ate "
    "ducks. "
)


def test_examples():
    assert not doctest.testmod(_squad_metrics).failed


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "v2", "v1"),
    [
        ("The Cat", "cat", 1, 1, 1),
        ('"1,000"', "1000", 1, 1, 1),
        ("U.S.", "US", 1, 1, 1),
        ("well-known", "well known", 0, 0, 0),
        ("a the an", "", 1, 1, 0),
        ("", "the", 1, 1, 0),
        ("", "cat", 0, 0, 0),
        ("\u2014", "-", 0, 0, 0),
        ("cat cat", "cat", 0, 2 / 3, 2 / 3),
        ("theatre", "the atre", 0, 0, 0),
        ("10%", "10 %", 1, 1, 1),
        ("Beyonc\u00e9\u2019s", "Beyonc\u00e9s", 0, 0, 0),
    ],
)
def test_the_official_cases(answer, gold, exact, v2, v1):
    assert exact_match(answer, gold) == exact
    assert token_f1(answer, gold, unanswerable=True) == pytest.approx(v2)
    assert token_f1(answer, gold, unanswerable=False) == pytest.approx(v1)


def test_the_best_accepted_answer_counts():
    asked = [AskedQuestion("", "", ("the cat", "a dog"), ()), AskedQuestion("", "", (), ())]

    def scores(facts, asked, guesses):
        answer = SpanTaskHead(facts)
        judged = Judged(facts, asked, guesses)
        names = (*facts.metrics, *answer.further_metrics(judged))
        return {name: answer.metrics[name].of(judged) for name in names}

    assert scores(V1, asked[:1], ["dog"]) == {"f1": 1.0, "exact_match": 1.0}
    assert scores(V2, asked, ["big dog", ""]) == {
        "f1": pytest.approx(5 / 6),
        "exact_match": 0.5,
        "answerable_f1": pytest.approx(2 / 3),
        "answerable_exact_match": 0.0,
    }
    assert scores(V2, asked[1:], ["cat"]) == {"f1": 0.0, "exact_match": 0.0}


def letters(folder, texts):
    """A tokenizer that cuts words into letters, as WordPiece with no longer pieces does."""
    found = sorted({letter for letter in texts if not letter.isspace()})
    pieces = [*SPECIALS, *found, *(f"##{letter}" for letter in found)]

    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in pieces))
    return AnswerRows(
        V1, Form(FRAMES["bert"], 40, 9), import_tokenizer(path, folder / "ours"), "corpus", "f"
    )


def perfect(rows):
    """Scores by which the stored answer is the best of its window, and a window with an answer
    beats one without."""
    width = int(rows.columns["input_ids"].lengths.max())
    scores = torch.zeros(len(rows), width, 2)
    for row in range(len(rows)):
        first, last = rows.columns["answer_span"][row].tolist()
        scores[row, first, 0] = scores[row, last, 1] = 9.0 if last else 5.0

    return scores


def batch_of(rows):
    collate = Collate("encoder", roles_of(rows.columns), SPECIAL)
    return collate(
        {name: rows.columns[name] for name in collate.columns}, np.ones(len(rows), np.float32)
    )


def scored_by(facts, rows):
    answer = SpanTaskHead(facts)
    task = SimpleNamespace(threshold=0.0)
    predicted = dict(enumerate(answer.read(perfect(rows), batch_of(rows), rows)))
    return answer.score(task, rows, rows, predicted)


@pytest.mark.parametrize("stride", [9, None, 128])
def test_perfect_scores_give_the_answers_of_any_text(tmp_path, stride):
    """With combining marks, emoji, Han, odd spaces, an answer that occurs twice, and windows of a
    stride above them."""
    wanted = [
        "Ro\u0301bot \U0001f600\u00a0ate",
        "北京烤鸭",
        "京",
        "1,000",
        "ducks",
        "(ducks)",
        "the\tpark",
        "ducks.",
    ]

    kind = letters(tmp_path, ROBOT + "Wherat?")
    kind.form = Form(FRAMES["bert"], 40, stride)
    items = [
        Question("What?", ROBOT, ((ROBOT.rindex(text), text),), str(place), place)
        for place, text in enumerate(wanted)
    ]
    rows = kind.rows(items)

    assert kind.counts["windows"] >= 2 * len(items)

    scored = scored_by(V1, rows)

    assert scored.metrics == {"f1": 1.0, "exact_match": 1.0}
    assert scored.count == len(items)


def test_no_answer_wins_where_every_window_says_so(tmp_path):
    kind = letters(tmp_path, ROBOT + "What?")
    kind.metadata = V2
    rows = kind.rows(
        [
            Question("What?", ROBOT, (), "a", 0),
            Question("What?", ROBOT, ((ROBOT.index("北"), "北"),), "b", 1),
        ]
    )

    scored = scored_by(V2, rows)

    assert scored.metrics["f1"] == scored.metrics["answerable_f1"] == 1.0
    assert list(scored.baselines["no_answer"].values()) == [0.5, 0.5, 0.0, 0.0]
    assert scored_by(V1, rows).metrics["exact_match"] == 0.5


@pytest.mark.parametrize(("threshold", "text"), [(0.4, ""), (0.5, "bc"), (0.6, "bc")])
def test_no_answer_has_to_exceed_the_threshold_over_all_windows(threshold, text):
    """Windows with spans 1.0 and 2.5, and no answer 9.0 and 3.0: a difference of exactly the
    threshold leaves the answer, as in the published code of SQuAD 2.0."""
    offsets = Ragged.from_lists([[0, 0, 0, 1, 1, 2, 2, 3]] * 2, np.uint32)
    rows = RowBatch({}, {"offsets": offsets})
    asked = AskedQuestion("", "abc", ("bc",), (0, 1))
    predicted = {0: (1.0, 1, 2, 9.0), 1: (2.5, 2, 3, 3.0)}
    found = SpanTaskHead(V2).extract(asked, rows, predicted, threshold)

    assert (found.text, found.score, found.null) == (text, 2.5, 3.0)
    assert SpanTaskHead(V1).extract(asked, rows, predicted).text == "bc"


def test_answers_begin_where_they_have_most_context(tmp_path):
    """The highest score of a window is at its edge, which another window owns: it does not
    count."""
    kind = letters(tmp_path, ROBOT + "What?")
    rows = kind.rows([Question("What?", ROBOT, ((0, "Ro\u0301bot"),), "a", 0)])

    assert len(questions_of(rows)[0].rows) == len(rows) > 2

    scores = torch.zeros(len(rows), int(rows.columns["input_ids"].lengths.max()), 2)
    edges = [
        int(places[-1])
        for places in (rows.columns["answer_places"][row] for row in range(len(rows)))
    ]
    scores[torch.arange(len(rows)), edges] = 9.0

    for row, (score, first, _, _) in enumerate(SpanTaskHead(V1).read(scores, batch_of(rows), rows)):
        owned = set(rows.columns["owned_places"][row].tolist())
        assert first in owned
        assert (score == 18.0) == (edges[row] in owned)

    scores[0, 3] = torch.nan

    with pytest.raises(IntegrityError, match="are not finite"):
        SpanTaskHead(V1).read(
            scores,
            batch_of(rows) | {"answer_places": torch.ones(scores.shape[:2], dtype=torch.bool)},
            rows,
        )


QUESTIONS = st.lists(
    st.tuples(st.integers(-20, 20), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()),
    min_size=1,
    max_size=12,
)


def mean_at(threshold, questions):
    """The mean score where no answer needs a larger margin than the threshold."""
    scores = [
        (1.0 if impossible else 0.0) if difference > threshold else (0.0 if impossible else f1)
        for difference, f1, impossible in questions
    ]
    return sum(scores) / len(scores)


@given(QUESTIONS)
def test_no_threshold_is_better(questions):
    answered = [0.0 if impossible else f1 for _, f1, impossible in questions]
    unanswered = [float(impossible) for *_, impossible in questions]
    differences = [difference for difference, *_ in questions]
    threshold, best = best_threshold(differences, answered, unanswered)
    every = [min(differences) - 1.0, *map(float, differences)]

    assert best == pytest.approx(max(mean_at(each, questions) for each in every))
    assert mean_at(threshold, questions) == pytest.approx(best)
    assert threshold == min(each for each in every if mean_at(each, questions) >= best - 1e-9)
