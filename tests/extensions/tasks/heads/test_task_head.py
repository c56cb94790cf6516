"""What all answers share, rows without an answer, and the baselines of rows and choices."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clozeline.errors import IntegrityError
from clozeline.extensions.tasks.heads.classification import ClassificationTaskHead
from clozeline.extensions.tasks.heads.multiple_choice import MultipleChoiceTaskHead
from clozeline.extensions.tasks.heads.regression import RegressionTaskHead
from clozeline.extensions.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskMetadata,
    read_task_metadata,
)
from clozeline.extensions.tasks.registries import TASK_HEADS
from clozeline.extensions.tasks.task_heads import task_head_of
from clozeline.extensions.tasks.task_heads._bag_of_words import fit_predict
from clozeline.extensions.tasks.task_heads._task_head import merge_shares
from clozeline.extensions.tasks.task_heads.lm import LmTaskHead, _prompt_of
from clozeline.extensions.tasks.task_run import set_rows
from clozeline.extensions.tasks.unlabeled_rows import (
    InputColumns,
    build_rows,
    read_unlabeled,
    task_reader,
    task_rows,
)
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from tests.contracts import contract
from tests.extensions.tasks.heads.task_metadata import NUMBER, ONE, SEVERAL
from tests.extensions.tasks.readers.reading import rows_for
from tests.model.generation.test_generate import perturbed
from tests.pipeline.task_files import (
    make_chat_sets,
    make_choice_sets,
    make_sets,
    open_split,
    sentences,
)

READER = SimpleNamespace(form="prose", options=SimpleNamespace(prefix="summarize: "))


def answers(head, labels=("a", "b"), **facts):
    return task_head_of(TaskMetadata(name="t", head=head, metrics=(), labels=labels, **facts), head)


def test_a_row_counts_once():
    assert merge_shares([{2: 1}, {0: 0, 1: 0}], 3) == {2: 1, 0: 0, 1: 0}
    with pytest.raises(IntegrityError, match="1 rows were predicted twice, first row 1"):
        merge_shares([{0: 1, 1: 0}, {1: 0, 2: 1}], 3)
    with pytest.raises(IntegrityError, match="1 of 3 rows were not predicted, first row 2"):
        merge_shares([{0: 1, 1: 0}], 3)


@pytest.mark.parametrize("size", [1, 3])
def test_each_row_is_predicted_once_among_rows_of_its_length(size):
    """Rows of 1 to 9 tokens; the score of a row is the sum of its tokens."""
    lists = [[row, *range(row * 7 % 9)] for row in range(150)]
    rows = RowBatch({}, {"input_ids": Ragged.from_lists(lists, np.uint16)})
    batches = []

    def forward(part):
        batches.append([own.tolist() for own in part.columns["input_ids"]])
        return torch.tensor([float(sum(own)) for own in batches[-1]]), {}

    shares = [
        RegressionTaskHead(NUMBER).predict(SimpleNamespace(forward=forward), rows, rank, size)
        for rank in range(size)
    ]

    assert merge_shares(shares, 150) == {row: float(sum(own)) for row, own in enumerate(lists)}

    order = [batches[at] for at in ([0, 1, 2, 3, 4] if size == 1 else [0, 2, 4, 1, 3])]

    assert [own for batch in order for own in batch] == sorted(lists, key=len)
    assert [len(batch) for batch in order] == [32, 32, 32, 32, 22]


def test_generated_texts_are_those_of_single_prompts_without_special_tokens():
    network = perturbed("decoder")
    end = 17
    prompts = [[number, *range(number % 5)] for number in range(1, 37)]
    vocabulary = SimpleNamespace(
        id_of=lambda *_: end, folder=Path("nowhere"), special=[at < 5 for at in range(37)]
    )
    tokenizer = SimpleNamespace(vocabulary=vocabulary, decode=lambda ids: f" {ids} ")
    objective = SimpleNamespace(frame=RowForm(longest_input=6), label="toy")
    task = SimpleNamespace(
        model=network, tokenizer=tokenizer, manifest=SimpleNamespace(objective=objective)
    )
    rows = RowBatch({}, {"input_ids": Ragged.from_lists(prompts, np.uint16)})
    answer = LmTaskHead(
        TaskMetadata(name="toy", head="lm", metrics=("exact_match",), words=("[9]",))
    )
    found = merge_shares([answer.predict(task, rows, rank, 2) for rank in range(2)], len(prompts))
    for row, prompt in enumerate(prompts):
        (alone,) = generate(network, [prompt], Decoding(max_tokens=6), end_ids={end})
        assert found[row] == str([token for token in alone.ids if token >= 5])

    assert len(set(found.values())) > 5

    written = dict(answer.records(task, rows, {3: "[9]", 1: "else"}))

    assert list(written.items()) == [(1, {"text": "else"}), (3, {"text": "[9]", "label": "[9]"})]
    assert [answer.error(["a", " [9]"], record) for record in written.values()] == [1.0, 0.0]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_name_no_class(several, wrong):
    answer = answers("classification", multi_label=several)
    with pytest.raises(IntegrityError, match="the weights are unusable"):
        answer.read(torch.tensor([[0.0, wrong]]), {}, None)


@contract(TASK_HEADS, "head")
def test_a_table_has_a_column_for_each_field_of_a_record(head):
    """No field is called like those that `predict` adds, and `predict` can name every input."""
    answer = answers(head)
    assert answer.fields()
    assert not {"row", "id", "rejected"} & answer.fields().keys()
    assert {*answer.fields().values()} <= {str, int, float, list[str], list[float]}
    assert all(rows_for(answer.metadata).inputs[0])


def item(head, values):
    facts = answers(head, ("a", "b") if head == "classification" else ()).metadata
    return rows_for(facts).item(values, READER, 4, None)


@pytest.mark.parametrize(
    ("head", "values", "expected"),
    [
        (
            "classification",
            {"text": [" a ", None, "b"], "text_pair": ["c"]},
            LabeledText(("a b", "c"), 0, 0.0, 4),
        ),
        ("regression", {"text": ["a"]}, LabeledText(("a",), None, 0.0, 4)),
        ("classification", {"text": [" "]}, Rejected("empty_text", 4)),
        ("classification", {"text": [7]}, Rejected("fields", 4)),
        ("tagging", {"words": ["in Rome"]}, TaggedWords(("in", "Rome"), (0, 0), 4)),
        ("tagging", {"words": [["a", " "]]}, Rejected("empty_word", 4)),
        ("tagging", {"words": ["['in', 'New York']"]}, TaggedWords(("in", "New York"), (0, 0), 4)),
        ("tagging", {"words": [None]}, Rejected("empty_text", 4)),
        ("span", {"question": [" "], "context": ["Ada."]}, Rejected("empty_text", 4)),
        ("span", {"question": ["Who?"], "context": [7]}, Rejected("fields", 4)),
        (
            "span",
            {"question": ["Who?"], "context": [" Ada. "]},
            Question("Who?", " Ada. ", (), "4", 4),
        ),
        (
            "multiple_choice",
            {"context": ["a"], "choices": [["b", "c "]]},
            Choices("a", ("b", "c"), 0, 4),
        ),
        (
            "multiple_choice",
            {"context": ["a"], "choices": ["b", "c"], "begin": ["He"]},
            Choices("a", ("He b", "He c"), 0, 4),
        ),
        ("multiple_choice", {"context": ["a"], "choices": [["b"]]}, Rejected("fields", 4)),
        ("multiple_choice", {"context": [7], "choices": ["b", "c"]}, Rejected("fields", 4)),
        ("lm", {"source": ["long"]}, SourceTarget("long", ("long",), "summarize: ", 4)),
    ],
)
def test_rows_of_each_head(head, values, expected):
    assert item(head, values) == expected


def test_a_source_is_a_message_of_the_run_template(tmp_path):
    """The answer is generated after what the template writes before it, as in training."""
    sets = make_chat_sets(tmp_path)
    train = open_split(sets, "train")
    tokenizer = load_tokenizer(tmp_path / "out/tokenizer/tokenizer")
    facts = read_task_metadata(train.manifest)
    opened = SimpleNamespace(train=train, facts=facts, trained=SimpleNamespace(tokenizer=tokenizer))
    reader = task_reader(train.manifest)
    builder = task_rows(opened)
    asked = builder.item({"source": ["a good film"]}, reader, 0, None)
    rows, uids, missing, _ = build_rows(builder, reader, [asked, Rejected("fields", 1)])
    prompt, dot = (found.ids.tolist() for found in tokenizer.encode(["a good film", "."]))

    assert (len(rows), [*uids.values()], missing) == (1, [0], {1: "fields"})
    assert _prompt_of(rows, 0) == [*prompt, *dot]


def opened_task(folder):
    return SimpleNamespace(tokenizer=load_tokenizer(folder / "out/tokenizer/tokenizer"))


def test_texts_and_answers_are_those_of_the_file(tmp_path):
    shards = open_shards(make_sets(tmp_path) / "dev")
    gold = ClassificationTaskHead(ONE).gold(opened_task(tmp_path), set_rows(shards))
    # BERT's decoder joins it
    expected = [(text.replace(" .", "."), str(label)) for text, label in sentences(81)[60:]]

    assert sorted((entry["texts"][0], entry["gold"]) for entry in gold.values()) == sorted(expected)

    file = tmp_path / "files/dev.tsv"
    reader = task_reader(shards.manifest)
    # a second text is optional
    items = read_unlabeled(file, rows_for(ONE), reader, InputColumns())

    assert [item.texts for item, _ in items] == [(text,) for text, _ in sentences(81)[60:]]


@pytest.mark.parametrize(
    ("answer", "name", "dtype", "values", "expected"),
    [
        (ClassificationTaskHead(ONE), "label", np.uint16, [[1], [0], [1], [1]], 1),
        (ClassificationTaskHead(ONE), "label", np.uint16, [[1], [0], [1], [0]], 0),
        (RegressionTaskHead(NUMBER), "target", np.float32, [[1.0], [4.0]], 2.5),
        (
            ClassificationTaskHead(SEVERAL),
            "labels",
            np.uint8,
            [[1, 1, 0], [0, 1, 0], [0, 1, 0]],
            [0, 1, 0],
        ),
    ],
)
def test_the_most_frequent_class_and_the_mean(tmp_path, answer, name, dtype, values, expected):
    make_sets(tmp_path)
    columns = {
        "input_ids": Ragged.from_lists([[2, 5, 3]] * len(values), np.uint16),
        name: Ragged.from_lists(values, dtype),
    }
    rows = RowBatch({}, columns)
    found = answer.baselines(opened_task(tmp_path), rows, rows)["majority"]

    assert found.tolist() == [expected] * len(values)


def test_words_decide_where_they_do():
    train = [(f"a {'good' if number % 2 else 'bad'} film {number}",) for number in range(40)]
    assert fit_predict(train, np.arange(40) % 2, [("good plot",), ("bad plot",)]).tolist() == [1, 0]
    assert fit_predict([("x",), ("y",)], np.array([1, 1]), [("x",)]).tolist() == [1], (
        "of one class alone"
    )


def test_a_missing_side_is_empty_and_several_classes_err_by_the_worst():
    assert fit_predict(
        [("x", "z"), ("y",)], np.array([1, 0]), [("x",), ("y", "")], sides=2
    ).tolist() == [1, 0]

    record = {"probabilities": {"a": 0.9, "b": 0.25, "c": 0.125}}

    assert ClassificationTaskHead(SEVERAL).error(["a"], record) == 0.25
    assert ClassificationTaskHead(SEVERAL).error(["a", "c"], record) == 0.875


def test_a_prompt_is_all_before_the_last_answer():
    columns = {
        "input_ids": Ragged.from_lists([[2, *range(10, 18)]], np.uint16),
        "label_positions": Ragged.from_lists([[3, 4, 7, 8]], np.uint16),
    }
    assert _prompt_of(RowBatch({}, columns), 0) == [2, *range(10, 16)]


def test_a_wrong_word_is_never_taken(tmp_path):
    """`good` is right wherever it is, at any number, among two choices and among three."""
    make_choice_sets(tmp_path)
    task = opened_task(tmp_path)
    tokenizer = task.tokenizer
    a, film, good, bad, plot = (
        int(one.ids[0]) for one in tokenizer.encode(["a", "film", "good", "bad", "plot"])
    )
    cls = 2
    sep = 3
    facts = TaskMetadata(name="t", head="multiple_choice", metrics=("accuracy",), texts=2)

    def rows(given):
        parts = [[[cls, a, film, sep, choice, sep] for choice in choices] for choices in given]
        lists = {
            "input_ids": Ragged.from_lists(
                [[token for part in one for token in part] for one in parts], np.uint16
            ),
            "choice_starts": Ragged.from_lists(
                [[6 * place for place in range(len(one))] for one in parts], np.uint32
            ),
            "choice": Ragged.from_lists([[one.index(good)] for one in given], np.uint16),
        }

        return RowBatch({}, lists)

    train = rows([[good, bad], [bad, good], [plot, bad, good], [plot, good, bad]] * 5)
    found = MultipleChoiceTaskHead(facts).baselines(
        task, train, rows([[bad, plot, good], [good, bad]])
    )

    assert found["words"].tolist() == [2, 0]
    assert found["majority"].tolist() == [1, 1]

    scores = torch.tensor([[1.0, 2.0, -torch.inf], [0.0, 3.0, 1.0]])
    choices = {"choices": torch.tensor([2, 3])}

    read = MultipleChoiceTaskHead(facts).read(scores, choices, train)

    assert [len(chances) for chances in read] == [2, 3]
    assert [sum(chances) for chances in read] == pytest.approx([1.0, 1.0])
    assert read[0][1] / read[0][0] == pytest.approx(math.e)
