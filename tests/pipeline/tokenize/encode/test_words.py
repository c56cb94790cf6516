"""Words that segmenters find: stored with the tokens, kept in the samples, and masked as a
whole."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.corrupt.config import NamedObjective
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.train.data.stream.online_corruption import corruption_of
from tests.pipeline.corruption_cases import WORDS
from tests.pipeline.token_sets import all_rows

SENTENCES = [
    "我们在北京大学学习自然语言处理",
    "今天天气很好，我们去公园散步",
    "他昨天买了一台新的计算机",
    "人工智能正在改变世界",
    "这本书介绍了中国历史和文化",
    "孩子们喜欢在学校里唱歌",
    "经济发展需要科学技术的支持",
    "上海是中国最大的城市之一",
]
LABELS = ("whole_word_masking", "span_boundary", "sentence_order_prediction", "text_infilling")


def recipe_of(folder, tokenizer, languages=("zh", "en"), **encode):
    objectives = [
        {"name": name, "max_length": 40, **({"unit": "word"} if name == LABELS[-1] else {})}
        for name in LABELS
    ]
    return {
        "corpus": "zh",
        "output": str(folder / "out"),
        "plan": {"shard_bytes": 100_000},
        "heldout": {"fraction": 0.05},
        "input": [
            {"path": str(folder / f"{name}.jsonl"), "language": code}
            for name, code in zip(("zh", "en"), languages, strict=True)
        ],
        "clean": {"filters": []},
        "train_tokenizer": {"name": tokenizer, "size": 700},
        "encode": encode,
        "group": {},
        "corrupt": objectives,
    }


def run(folder, tokenizer="wordpiece", languages=("zh", "en"), **encode):
    folder.mkdir(exist_ok=True)

    with (folder / "zh.jsonl").open("w") as file:
        for number in range(60):
            text = (
                "。".join(SENTENCES[(number * step) % 8] for step in (1, 3, 5, 7))
                + f"。编号{number}"
            )
            file.write(
                json.dumps({"text": text, "cut": re.findall(".+?(?:[，。]|$)", text)}) + "\n"
            )

    with (folder / "en.jsonl").open("w") as file:
        for number in range(20):
            file.write(
                json.dumps(
                    {"text": f"The seventh wizard reads page {number} of a book. Others sleep."}
                )
                + "\n"
            )

    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe_of(folder, tokenizer, languages, **encode)))

    assert main(["--config", str(path)]) == 0

    return folder / "out"


@pytest.fixture(scope="module")
def segmented(tmp_path_factory):
    pytest.importorskip(
        "jieba", reason="pip install 'clozeline[words]' for the tests of encode.words"
    )
    return run(tmp_path_factory.mktemp("zh"), words={"zh": "jieba"})


def slow_word_starts(text, encoding):
    """The first token of each of jieba's words: the one that holds the word's first character, if
    it starts there."""
    import jieba

    starts = {0}
    place = 0

    for word in jieba.cut(text):
        if not word.isspace():
            starts |= {
                number for number, start in enumerate(encoding.starts.tolist()) if start == place
            }
        place += len(word)

    return sorted(starts)


def test_tokens_are_stored_with_the_words_of_the_segmenter(segmented):
    """Chinese by jieba, English by the pieces; the tokens of both are those of a run without."""
    manifest = open_shards(segmented / "encode").manifest

    assert manifest.config["words"] == {"zh": {"name": "jieba"}}

    tokenizer = load_tokenizer(
        find_tokenizer(segmented / "encode" / "manifest.json", manifest.tokenizer.fingerprint)
    )
    documents = {each.uid: each for each in read_all_documents(segmented / "clean" / "documents")}
    rows = all_rows(segmented / "encode")

    assert len(rows) == len(documents) == 80

    for row in rows:
        document = documents[row.fixed["document_uid"].tobytes()]
        encoding = tokenizer.encode([document.text])[0]

        assert np.array_equal(encoding.ids, row["token_ids"])

        wanted = slow_word_starts(document.text, encoding)
        if document.language == "en":
            wanted = np.flatnonzero(tokenizer.vocabulary.opens_word(encoding.ids)).tolist()

        assert row["word_starts"].tolist() == wanted


@pytest.mark.parametrize("options", recipe_of(Path(), "wordpiece")["corrupt"], ids=LABELS)
def test_corruption_while_training_gives_what_is_stored(segmented, options):
    """The words are in the samples, so both see the same ones; without them the rows are others."""
    entry = NamedObjective(objective=OBJECTIVES.resolve(options))
    stored = {
        int(row.fixed["uid"]): row
        for row in all_rows(segmented / "corrupt" / entry.set_label / "train")
    }
    grouping = entry.build(WORDS).grouping.label
    corruption = corruption_of([entry], open_shards(segmented / "group" / grouping / "train"))
    samples = all_rows(segmented / "group" / grouping / "train")
    plain = RowBatch(
        samples.fixed,
        {name: column for name, column in samples.columns.items() if name != "word_starts"},
    )
    changed = 0

    for rows, is_same in ((samples, True), (plain, False)):
        examples, skips = corruption(rows, np.zeros(len(rows), np.uint16))
        for example, skip in zip(examples, skips, strict=True):
            wanted = None if skip else stored[int(example.fixed["uid"])]
            same = skip or all(np.array_equal(example[name], wanted[name]) for name in wanted)
            assert same or not is_same
            changed += not same

    assert changed > 10


def test_without_segmenters_nothing_is_stored_of_them(tmp_path, capsys):
    out = run(tmp_path / "plain")
    manifest = open_shards(out / "encode").manifest

    assert "word_starts" not in manifest.roles
    assert "words" not in manifest.config

    said = " ".join("".join(capsys.readouterr()).split())

    assert (
        "words: 60 documents of 80 (zh) have no spaces between words, so each piece of the "
        "tokenizer counts as a word in" in said
    )
    assert "whole_word_masking, span_boundary, sentence_order_prediction, text_infilling" in said
    assert "encode.words: {zh: jieba} finds words (pip install 'clozeline[words]')" in said


def test_a_segmenter_of_a_language_that_no_document_has_is_named(tmp_path, capsys):
    """Where languages are neither identified nor given, it would find nothing, and nobody would
    know."""
    pytest.importorskip(
        "jieba", reason="pip install 'clozeline[words]' for the tests of encode.words"
    )
    run(tmp_path, languages=("und", "en"), words={"zh": "jieba"})
    said = " ".join("".join(capsys.readouterr()).split())

    assert (
        "words: encode.words names zh, but the languages of the documents are en, und: set them by"
        in said
    )


def test_words_that_come_with_the_documents_are_stored_and_those_without_are_counted(
    tmp_path, capsys
):
    """Chinese has a field of words here, English none."""
    out = run(tmp_path, words={"zh": {"name": "given", "key": "cut"}, "en": "given"})

    said = " ".join("".join(capsys.readouterr()).split())

    assert "20 documents without words (encode.words)" in said
    assert "have no spaces between words" not in said

    manifest = open_shards(out / "encode").manifest
    tokenizer = load_tokenizer(
        find_tokenizer(out / "encode" / "manifest.json", manifest.tokenizer.fingerprint)
    )
    documents = {each.uid: each for each in read_all_documents(out / "clean" / "documents")}

    for row in all_rows(out / "encode"):
        document = documents[row.fixed["document_uid"].tobytes()]
        encoding = tokenizer.encode([document.text])[0]

        if document.language == "zh":  # the field cuts after each comma and full stop
            marks = [
                0,
                *(place + 1 for place, letter in enumerate(document.text[:-1]) if letter in "，。"),
            ]
            wanted = [int(np.searchsorted(encoding.starts, mark)) for mark in marks]
        else:
            wanted = np.flatnonzero(tokenizer.vocabulary.opens_word(encoding.ids)).tolist()

        assert row["word_starts"].tolist() == wanted
