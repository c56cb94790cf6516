"""Rows to train on: words in other languages, and pairs of similar texts."""

import doctest
from pathlib import Path

import pytest

from clozeline.extensions.tasks.readers import (
    LabeledText,
    Rejected,
    TaggedWords,
    TaskMetadata,
    read_task_metadata,
)
from clozeline.extensions.tasks.sets import training_items
from clozeline.extensions.tasks.sets.training_items import (
    check_switched_head,
    pair_metadata,
    reject_negative,
    to_pair,
)
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.code_switching import WordSwitcher
from tests.extensions.tasks.readers.reading import items_of, reader_of, written
from tests.pipeline.task_files import write_vocabulary
from tests.refusals import refused

TEXTS = TaskMetadata(name="toy", head="classification", labels=("no", "yes"), metrics=("accuracy",))
TAGS = TaskMetadata(
    name="ner", head="tagging", labels=("O", "B-PER", "I-PER"), metrics=("entity_f1",)
)


def switch(items, dictionaries, metadata, seed=1, sentences=1.0, words=1.0):
    config = CodeSwitchConfig(dictionaries=[Path("x")], sentence_rate=sentences, word_rate=words)
    return list(
        training_items.code_switch(items, WordSwitcher(config, dictionaries, seed), metadata)
    )


def switched(count):
    return [
        LabeledText(("The Cat's new, it runs!", "black cat"), index % 2, None, index)
        for index in range(count)
    ]


def test_words_of_a_dictionary_are_replaced_and_nothing_else_is():
    (found,) = switch(switched(1), [{"cat": ["Katze"], "new": ["ganz neu"], "the": ["die"]}], TEXTS)

    assert found == LabeledText(("Die Katze's ganz neu, it runs!", "black Katze"), 0, None, 0)

    given = TaggedWords(("New", "cat", "sat"), (1, 2, 0), 4, "doc")
    bad = Rejected("fields", 5)

    assert switch([given, bad], [{"new": ["ganz neue"], "cat": ["kleine Katze"]}], TAGS) == [
        TaggedWords(("Ganz", "neue", "kleine", "Katze", "sat"), (1, 2, 2, 2, 0), 4, "doc"),
        bad,
    ]
    assert doctest.testmod(training_items).failed == 0

    with refused("translating words would move the answers of the head span"):
        check_switched_head(TaskMetadata(name="squad", head="span", metrics=("f1",)))


STSB = "sentence1\tsentence2\tscore\n" + "".join(
    f"a film\ta plot {'very ' * index}\t{index}\n" for index in range(6)
)
MNLI = "sentence1\tsentence2\tgold_label\na\tb\tneutral\nc\td\tentailment\ne\tf\t-\n"


def pairs(name, positive, path, **options):
    reader = reader_of(name, **options)
    metadata = pair_metadata(reader.metadata, positive)
    return [to_pair(item, reader.metadata, positive) for item in items_of(reader, path)], metadata


def test_numbers_stay_and_classes_become_one_and_nought(tmp_path):
    path = written(tmp_path, STSB, "s.tsv")
    items, metadata = pairs("glue", 4.0, path, task="stsb")

    assert [item.target for item in items] == [0, 1, 2, 3, 4, 5]

    learned = [reject_negative(item, metadata) for item in items]

    assert [getattr(item, "reason", None) for item in learned] == ["negative_pair"] * 4 + [None] * 2
    assert (metadata.head, metadata.high, metadata.positive_threshold, metadata.metrics) == (
        "similarity",
        5.0,
        4.0,
        ("pearson", "spearman"),
    )
    # without a threshold, all scored pairs are learned
    items, metadata = pairs("glue", None, path, task="stsb")

    assert [reject_negative(item, metadata) for item in items] == items
    assert (metadata.head, metadata.positive_threshold, metadata.high) == ("similarity", None, 5.0)

    items, inferred = pairs("glue", "entailment", written(tmp_path, MNLI, "m.tsv"), task="mnli")

    assert items[:2] == [
        LabeledText(("a", "b"), None, 0.0, 1),
        LabeledText(("c", "d"), None, 1.0, 2),
    ]
    assert isinstance(items[2], Rejected)
    assert (inferred.positive_threshold, inferred.labels) == (1.0, ())

    path = written(tmp_path, "Quality\t#1 String\t#2 String\n1\ta\tb\n0\tc\td\n", "p.tsv")
    for positive in ("1", 1.0):
        assert [item.target for item in pairs("glue", positive, path, task="mrpc")[0]] == [1.0, 0.0]


def test_aligned_texts_belong_together(tmp_path):
    """The prefix of a translation is no part of its text."""
    path = written(tmp_path, "en\tde\nHello!\tHallo!\nYes.\tJa.\n", "train.tsv")
    items, metadata = pairs(
        "text_to_text", None, path, source="en", target="de", prefix="translate: "
    )

    assert items == [
        LabeledText(("Hello!", "Hallo!"), None, 1.0, 1),
        LabeledText(("Yes.", "Ja."), None, 1.0, 2),
    ]
    assert metadata.metrics == ("accuracy",)

    talk = (
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    )
    template = {"user": "{content}", "assistant": "{content}"}
    chats, _ = pairs("instructions", None, written(tmp_path, talk), template=template)

    assert [item.reason for item in chats] == ["no_pair"]


@pytest.mark.parametrize(
    ("name", "positive", "options", "message"),
    [
        (
            "glue",
            "entailment",
            {"task": "stsb"},
            "above 0 and up to 5, or null of the task stsb, got entailment",
        ),
        ("glue", 5.5, {"task": "stsb"}, "up to 5, or null of the task stsb, got 5.5"),
        ("glue", 0.0, {"task": "stsb"}, "expected a number above 0"),
        (
            "glue",
            "same",
            {"task": "mnli"},
            "expected one of entailment, neutral, contradiction of the task mnli",
        ),
        ("glue", "1", {"task": "sst2"}, "the task sst2 has no pairs of texts"),
        ("text_to_text", 1.0, {}, "expected null of the task text_to_text, got 1"),
        ("squad", None, {}, "the task squad has no pairs of texts"),
    ],
)
def test_pairs_that_are_none_are_refused(name, positive, options, message):
    with refused(message):
        pair_metadata(reader_of(name, **options).metadata, positive)


def test_the_stage_learns_pairs_that_are_alike_and_scores_all(tmp_path, capsys):
    files = tmp_path / "files"
    files.mkdir()
    for split in ("train", "dev"):
        written(files, STSB, f"{split}.tsv")
    text = "corpus: toy\nseed: 1\ntasks: {reader: {name: glue, task: stsb}, similarity: {positive: 4}}\n"
    recipe = written(tmp_path, text, "recipe.yaml")
    words = [
        "--config",
        str(recipe),
        f"input={files}",
        f"tokenizer.path={write_vocabulary(tmp_path / 'words')}",
    ]

    assert main([*words, f"output={tmp_path}/out", "tasks.frame=t5", "tokenizer.add=true"]) == 64
    assert (
        "the task is for the head similarity, but t5 is a template for an encoder_decoder"
        in capsys.readouterr().err
    )
    assert main([*words, f"output={tmp_path}/out"]) == 0

    train, dev = (open_shards(tmp_path / "out/tasks/stsb" / split) for split in ("train", "dev"))

    assert (len(train), len(dev)) == (2, 6)
    assert train.manifest.totals.skipped == {"negative_pair": 4}

    metadata = read_task_metadata(dev.manifest)

    assert (metadata.head, metadata.positive_threshold) == ("similarity", 4.0)
    assert [spec.name for spec in dev.manifest.columns if spec.kind == "list"] == [
        "input_ids",
        "input_ids_b",
        "target",
    ]
