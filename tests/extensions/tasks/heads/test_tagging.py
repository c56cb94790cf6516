"""Scores of tags: golden cases of seqeval's two modes, sentences put together from windows, and the
baselines."""

import numpy as np
import pytest
import torch

from clozeline.errors import IntegrityError
from clozeline.extensions.tasks.heads.tagging import TaggedSentence, TaggingTaskHead
from clozeline.extensions.tasks.readers import TaggedWords, TaskMetadata
from clozeline.extensions.tasks.rows._windows import NO_WORD
from clozeline.extensions.tasks.rows.tagging import TaggedRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.extensions.tasks.task_heads._task_head import Judged
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
FACTS = TaskMetadata(
    name="ner", head="tagging", labels=LABELS, metrics=("entity_f1", "strict_entity_f1", "accuracy")
)
POS = TaskMetadata(
    name="pos", head="tagging", labels=("NOUN", "PROPN", "VERB"), metrics=("accuracy",)
)


@pytest.mark.parametrize(
    ("gold", "found", "lenient", "strict"),
    [
        ("B-PER I-PER O", "I-PER I-PER O", 1.0, 0.0),
        ("B-PER I-PER O B-LOC", "B-PER I-LOC O B-LOC", 0.4, 0.5),
        ("B-PER B-PER", "B-PER I-PER", 0.0, 0.0),
        ("O O", "O O", 0.0, 0.0),
        ("B-PER O", "O O", 0.0, 0.0),
        ("B-PER I-PER", "B-PER I-PER", 1.0, 1.0),
    ],
)
def test_both_modes(gold, found, lenient, strict):
    judged = Judged(FACTS, [gold.split()], [found.split()])
    known = TaggingTaskHead(FACTS).metrics
    scores = {name: known[name].of(judged) for name in FACTS.metrics}

    assert (scores["entity_f1"], scores["strict_entity_f1"]) == (
        pytest.approx(lenient),
        pytest.approx(strict),
    )

    right = sum(one == other for one, other in zip(gold.split(), found.split(), strict=True))

    assert scores["accuracy"] == right / len(gold.split())


def rows_of(tmp_path, items, length=8):
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    return TaggedRows(FACTS, Form(FRAMES["bert"], length), tokenizer, "corpus", "f").rows(items)


ITEMS = [
    TaggedWords(
        ("a", "film", "with", "no", "heart", ".", "one", "good", "plot"),
        (0, 1, 2, 0, 3, 0, 1, 2, 2),
        0,
    ),
    TaggedWords(("plot", "\u200d", "bad"), (3, 4, 0), 1),
]


def test_sentences_are_put_together_from_windows(tmp_path):
    rows = rows_of(tmp_path, ITEMS)
    found = sorted(TaggingTaskHead(FACTS).sentences(rows), key=lambda one: len(one.words))

    assert [one.words for one in found] == [ITEMS[1].words, ITEMS[0].words]
    assert [len(one.rows) for one in found] == [1, 2]
    assert [one.tags for one in found] == [
        tuple(LABELS[tag] for tag in item.tags) for item in reversed(ITEMS)
    ]


def test_right_predictions_score_one_but_for_words_without_tokens(tmp_path):
    """Each row gives the classes of its own tagged words.

    The word without a token is an O, which breaks its entity.
    """
    rows = rows_of(tmp_path, ITEMS)
    right = {row: [rows.columns["tags"][row].tolist()] * 2 for row in range(len(rows))}
    scored = TaggingTaskHead(FACTS).score(None, rows, rows, right)

    assert scored.count == 12
    assert scored.metrics["accuracy"] == pytest.approx(11 / 12)
    assert scored.metrics["entity_f1"] == scored.metrics["argmax_entity_f1"] == pytest.approx(3 / 4)
    assert (
        scored.baselines["most_frequent_tag"]["accuracy"]
        >= scored.baselines["majority"]["accuracy"]
    )


def test_the_best_word_by_word_and_the_best_sequence():
    """Two rows of 2 and 0 tagged words: I-PER cannot begin, so the second best is taken.

    No blank is read.
    """
    scores = torch.full((2, 4, 5), -1.0)
    scores[0, 1] = torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0])
    scores[0, 3] = torch.tensor([1.0, 0.0, 3.0, 0.0, 0.0])
    tensors = {"label_index": torch.tensor([1, 2, 3])}
    columns = {
        "tag_positions": [[1, 2, 3], []],
        "word_numbers": [[NO_WORD, 0, NO_WORD, 1], [NO_WORD] * 4],
    }
    rows = RowBatch(
        {}, {name: Ragged.from_lists(values, np.uint16) for name, values in columns.items()}
    )

    assert TaggingTaskHead(FACTS).read(scores, tensors, rows) == [[[2, 2], [1, 2]], [[], []]]
    assert TaggingTaskHead(POS).read(scores[:, :, :3], tensors, rows) == [
        [[2, 2], [2, 2]],
        [[], []],
    ]

    scores[0, 1, 0] = torch.nan
    with pytest.raises(IntegrityError, match="no finite score"):
        TaggingTaskHead(FACTS).read(scores, tensors, rows)


def test_baselines():
    def sentence(text, tags):
        return TaggedSentence(tuple(text.split()), tuple(tags.split()), ())

    train = [
        sentence("runs runs runs Ada", "VERB VERB NOUN PROPN"),
        sentence("cat dog", "NOUN NOUN"),
    ]
    answer = TaggingTaskHead(POS)
    answer.sentences = list
    found = answer.baselines(None, train, [sentence("runs Bob bird Ada", "VERB PROPN NOUN PROPN")])

    assert found["majority"] == [["NOUN"] * 4]
    assert found["most_frequent_tag"] == [["VERB", "NOUN", "NOUN", "PROPN"]]
