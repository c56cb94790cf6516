"""Text to text: templates around sources, tasks by input, and rates as integers."""

import dataclasses

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import Example, RowBatch
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from tests.pipeline.corrupt.objectives.runner import corrupt, reasons
from tests.pipeline.corruption_cases import EOS, WORDS
from tests.pipeline.pair_cases import window

TRANSLATE = "Translate from Chinese to English: {source}"
SCORE = "Text: {source} Entailment?"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    made = ByteBpe.train([TRANSLATE, SCORE, "Hello!"] * 3, ByteBpe.Options(size=450), folder)
    save_tokenizer(made, "byte_bpe", folder)
    loaded = load_tokenizer(folder)
    return loaded, dataclasses.replace(loaded.vocabulary, folder=folder)


def build(words, *tasks, **options):
    return build_objective({"name": "text_to_text", "tasks": list(tasks) or [{}], **options}, words)


@pytest.mark.parametrize("head", ["none", "cls"])
def test_every_task_has_its_template_and_length(tokenizer, head):
    tokenizer, loaded = tokenizer
    front = [] if head == "none" else [loaded.specials[head]]
    tasks = [
        {"source": "a", "template": TRANSLATE},
        {"source": "b", "template": SCORE},
        {"source": "c"},
    ]

    objective = build(loaded, *tasks, input_length=60, target_length=30, source_head=head)
    pieces = [
        [encoding.ids.tolist() for encoding in tokenizer.encode(task["template"].split("{source}"))]
        for task in (*tasks[:2], {"template": "{source}"})
    ]
    lengths = [59 - len(front) - sum(map(len, pair)) for pair in pieces]
    options = dict(objective.grouping.options)

    assert options["sources"] == tuple(
        (name, n, 1_000_000) for name, n in zip("abc", lengths, strict=True)
    )
    assert (objective.content_length, options["target_length"]) == (59 - len(front), 29)

    for task, (before, after) in enumerate(pieces):
        rows = window([[300] * lengths[task]], loaded, target=[301] * 29, part=task)
        example = corrupt(objective, rows).row(0)

        assert example["input_ids"].tolist() == [
            *front,
            *before,
            *[300] * lengths[task],
            *after,
            EOS,
        ]
        assert len(example["input_ids"]) == 60
        assert example["target_ids"].tolist() == [*[301] * 29, EOS]
        assert example["task"].tolist() == [task]
        assert objective.restore(example).tolist() == [
            *[300] * lengths[task],
            EOS,
            *[301] * 29,
            EOS,
        ]

        longer = window(
            [[300] * (lengths[task] + 1)],
            loaded,
            target=[301],
            part=task,
        )

        assert reasons(objective, longer) == ["too_long"]


def test_reasons():
    rows = RowBatch.concatenate(
        [
            window([[200]], WORDS),
            window([[200]], WORDS, target=[300] * 9),
        ]
    )
    assert reasons(build(WORDS, target_length=9), rows) == ["empty", "too_long"]


def test_rates_are_integers_and_shares_follow_from_them():
    tasks = [
        {"source": "a", "examples": 100},
        {"source": "b", "examples": 400},
        {"source": "c", "examples": 10**9},
    ]

    plain = build(WORDS, *tasks, cap=1000)

    assert plain.shares_to_take() == (1_000_000, 1_000_000, 1)

    even = build(WORDS, *({**task, "weight": 1.0} for task in tasks[:2]))

    assert even.shares_to_take() == (1_000_000, 250_000)

    warm = build(WORDS, *tasks, cap=900, temperature=2.0)

    assert warm.shares_to_take() == (1_000_000, 500_000, 1)


@pytest.mark.parametrize("broken", ["input", "target", "task"])
def test_a_wrong_frame_is_an_error(broken):
    objective = build(WORDS)
    columns = dict(corrupt(objective, window([[200, 201]], WORDS, target=[300])).row(0).columns)
    name = {"input": "input_ids", "target": "target_ids", "task": "task"}[broken]
    columns[name] = columns[name][:-1] if broken != "task" else np.array([1], np.uint16)
    with pytest.raises(ValueError, match=r"template|task 1 of 1 does not exist"):
        objective.restore(Example({}, columns))
