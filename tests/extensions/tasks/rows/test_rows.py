from dataclasses import replace

import numpy as np
import pytest

from clozeline.extensions.tasks.readers import Choices, LabeledText, Rejected, TaskMetadata
from clozeline.extensions.tasks.registries import TASK_ROWS
from clozeline.extensions.tasks.rows import rows_of
from clozeline.extensions.tasks.rows.classification import ClassRows
from clozeline.extensions.tasks.rows.multiple_choice import ChoiceRows
from clozeline.extensions.tasks.rows.similarity import PairRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.train.data.stream.collate import Collate
from tests.contracts import contract
from tests.extensions.tasks.rows.built_rows import EOS, built, ids
from tests.refusals import refused

CHOICES = TaskMetadata(name="toy", head="multiple_choice", metrics=("accuracy",), texts=2)


def test_each_choice_is_framed_with_the_context(words):
    """`[CLS] context [SEP] choice [SEP]`, each cut for itself."""
    context = "a film"
    short = "bad"
    long = "not a good film with one plot"
    counts, (row,) = built(
        ChoiceRows, CHOICES, "bert", 8, words, [Choices(context, (short, long), 1, 0)]
    )
    first, second, third = (ids(words, text) for text in (context, short, long))

    assert row["input_ids"].tolist() == [2, *first, 3, *second, 3, 2, *first, 3, *third[:3], 3]
    assert row["choice_starts"].tolist() == [0, 6]
    assert row["segment_starts"].tolist() == [0, 4, 6, 10]
    assert row["choice"].tolist() == [1]
    assert (counts["truncated_tokens"], counts["labels"]) == (len(third) - 3, {"1": 1})


def test_choices_without_tokens_are_counted(words):
    items = [
        Choices("a", ("film", "\u0300"), 0, 0),
        Choices("\u0300", ("a", "film"), 0, 1),
        Rejected("fields", 2),
        Choices("a", ("film", "bad", "good"), 2, 3),
    ]

    counts, rows = built(ChoiceRows, CHOICES, "roberta", 16, words, items)

    assert counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert sorted(rows.columns) == ["choice", "choice_starts", "input_ids"]
    assert rows.columns["choice_starts"].values.tolist() == [0, 6, 12]
    assert rows.columns["choice_starts"].values.dtype == np.uint32


PAIRS = TaskMetadata(
    name="toy", head="similarity", metrics=("spearman",), texts=2, high=5.0, positive_threshold=4.0
)


def test_both_texts_of_a_pair_have_a_frame_of_their_own(words):
    """`[CLS] a [SEP]` twice, each cut for itself; a text without tokens is counted."""
    short = "a film"
    long = "not a good film with one plot very"
    items = [LabeledText((short, long), None, 4.5, 0), LabeledText(("a", "\u0300"), None, 1.0, 1)]
    counts, (row,) = built(PairRows, PAIRS, "bert", 8, words, items)

    assert row["input_ids"].tolist() == [2, *ids(words, short), 3]
    assert row["input_ids_b"].tolist() == [2, *ids(words, long)[:6], 3]
    assert row["target"].tolist() == [pytest.approx(4.5)]
    assert counts["refused"] == {"no_tokens": 1}
    assert (counts["truncated"], counts["truncated_tokens"]) == (1, len(ids(words, long)) - 6)


def test_blocks_of_several_values_a_token_have_fewer_rows(words):
    """Choices have 4 values a token: as many rows as classes of 4 times the length."""
    sizes = [(CHOICES, 2000), (CLASSES, 8000)]
    writers = [
        rows_of(metadata.head, "encoder").writer(
            metadata, "train", Form(FRAMES["bert"], size), words.vocabulary
        )
        for metadata, size in sizes
    ]

    assert writers[0].block_rows == writers[1].block_rows


CLASSES = TaskMetadata(
    name="toy", head="classification", labels=("no", "yes"), metrics=("accuracy",)
)
NUMBERS = TaskMetadata(
    name="toy", head="regression", metrics=("pearson",), texts=2, low=0.0, high=5.0
)


@pytest.fixture
def made(words):
    return ClassRows(CLASSES, Form(FRAMES["bert"], 8), words, "corpus", "default/train.tsv")


def test_every_row_is_an_example_or_counted(made):
    texts = [
        LabeledText(("a good film",), 1, None, 1),
        Rejected("fields", 2),
        LabeledText(("\u0300",), 0, None, 3),
        LabeledText(("a very bad film with no heart one dull plot",), 0, None, 4),
    ]

    rows = made.rows(texts)

    assert made.counts == {
        "rows_in": 4,
        "examples": 2,
        "refused": {"fields": 1, "no_tokens": 1},
        "tokens": 5 + 8,
        "truncated": 1,
        "truncated_tokens": 4,
        "labels": {"yes": 1, "no": 1},
        "windows": 0,
        "notes": {},
    }
    assert sorted(map(len, rows.columns["input_ids"])) == [5, 8]
    assert sorted(rows.columns) == ["input_ids", "label"]


def test_uids_follow_from_text_and_index_alone(made):
    texts = [LabeledText(("a film",), 0, None, index) for index in range(5)]
    uids = made.rows(texts).fixed["uid"].tolist()

    assert len(set(uids)) == 5

    again, other = (
        made.rows([LabeledText((text,), 0, None, 3)]).fixed for text in ("a film", "a good film")
    )

    assert again["uid"][0] in uids
    assert other["uid"][0] not in uids
    assert other["document_uid"].tobytes() == again["document_uid"].tobytes()


def test_rows_are_in_the_order_of_their_hash(made):
    """A file sorted by class gives blocks of both."""
    texts = [
        LabeledText((f"a film {'good ' * (index % 3)}",), index // 50, None, index)
        for index in range(100)
    ]
    labels = made.rows(texts).columns["label"].values

    assert 15 < labels[:50].sum() < 35

    forward = made.rows(texts)
    backward = made.rows(texts[::-1])

    assert np.array_equal(forward.fixed["uid"], backward.fixed["uid"])


@pytest.mark.parametrize("frame", ["gpt1", "bert"])
def test_a_pair_in_both_orders(words, frame):
    """Two rows of one example, each cut for itself.

    A batch holds them as rows, and one number for both.
    """
    special = replace(words.vocabulary, specials=words.vocabulary.specials | {"bos": EOS})
    words.vocabulary = special
    metadata = replace(NUMBERS, both_orders=True)
    item = LabeledText(("a film", "one plot with no heart"), None, 2.5, 0)
    counts, rows = built(
        rows_of(metadata.head, FRAMES[frame].architecture), metadata, frame, 8, words, [item]
    )
    first = ids(words, "a film")
    second = ids(words, "one plot with")
    head, tail = (EOS, 2) if frame == "gpt1" else (2, 3)
    pairs = [[head, *first, 3, *second, tail], [head, *second, 3, *first, tail]]

    assert rows.row(0)["input_ids"].tolist() == [*pairs[0], *pairs[1]]
    assert rows.row(0)["choice_starts"].tolist() == [0, 8]
    assert counts["truncated_tokens"] == 4

    roles = {
        one.name: replace(one.role, fraction=one.dtype == "float32")
        for one in rows_of(metadata.head, FRAMES[frame].architecture).features(
            metadata, FRAMES[frame]
        )
    }

    batch = Collate(FRAMES[frame].architecture, roles, words.vocabulary.specials)(
        rows.columns, None
    )

    assert batch["input_ids"].tolist() == pairs
    assert (batch["choices"].tolist(), batch["target"].tolist(), len(batch["row_weight"])) == (
        [2],
        [2.5],
        1,
    )
    assert "label_index" not in batch


@contract(TASK_ROWS)
def test_rows_are_for_a_head_and_have_its_columns(name):
    """A set of each architecture: ids first, no name twice, and columns of no other head."""
    kind = TASK_ROWS.load_class(name)
    metadata = TaskMetadata(
        name="toy", head=name, metrics=("accuracy",), labels=("a", "b"), texts=2
    )
    fitting = [frame for frame in FRAMES.values() if kind.for_architecture(frame.architecture)]

    assert fitting

    for frame in fitting:
        features = rows_of(name, frame.architecture).features(metadata, frame)
        assert features[0].name == "input_ids"
        assert len({feature.name for feature in features}) == len(features)
        assert {feature.role.head for feature in features} <= {"", name}


def test_a_head_without_rows_is_refused_by_name():

    with refused("span has no rows for the architecture decoder"):
        rows_of("span", "decoder")
