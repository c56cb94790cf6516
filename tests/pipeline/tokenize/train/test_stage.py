import logging

import pytest

from clozeline.configuration.config import to_data, validate
from clozeline.pipeline.tokenize.train.config import TrainTokenizerConfig
from tests.pipeline.token_sets import files_of
from tests.pipeline.tokenize.encode import encode_passes as passes
from tests.refusals import refused

COUNT = 60


def test_task_count_and_cut_into_parts_do_not_change_the_tokenizer(tmp_path):
    trees = []

    for number in (1, 4):
        source = passes.write_parts(tmp_path / f"clean{number}", passes.documents(COUNT), number)
        counts = passes.train(source, tmp_path / f"out{number}", size=600, budget=20_000)
        assert counts["skipped"]["over_budget"] > 0
        trees.append(files_of(tmp_path / f"out{number}"))

    assert trees[0] == trees[1]

    names = ("name", "published.json", "tokenizer.json", "vocabulary.json")

    assert sorted(trees[0]) == [f"tokenizer/{name}" for name in names]


def test_too_little_text_is_said_plainly(tmp_path, caplog):
    source = passes.write_parts(tmp_path / "clean", passes.documents(8), 1)
    with caplog.at_level(logging.WARNING):
        counts = passes.train(source, tmp_path / "out", size=30000)
    size = counts["vocabulary"]["size"]

    assert counts["vocabulary"] == {"asked": 30000, "size": size}
    assert "the text is too short for 30,000 tokens" in caplog.text
    assert f"the vocabulary has {size:,}" in caplog.text


@pytest.mark.parametrize(
    ("count", "options", "said"),
    [
        (
            COUNT,
            {"name": "unigram", "size": 440},
            "too small for the characters of this text, which need 4",
        ),
        (0, {}, "no text to train a tokenizer on"),
    ],
)
def test_texts_that_support_no_tokenizer(tmp_path, count, options, said):
    source = passes.write_parts(tmp_path / "clean", passes.documents(count), 1)
    with refused(said):
        passes.train(source, tmp_path / "out", **options)


def test_configuration_is_checked_when_it_is_read():
    config = validate(
        TrainTokenizerConfig,
        {"name": "unigram", "size": 4000, "options": {"num_threads": 2}},
        "recipe",
    )

    assert config.algorithm().options.num_threads == 2
    assert config.algorithm().options.size == 4000
    assert to_data(config)["options"] == {"num_threads": 2}

    for wrong, message in (
        ({"name": "bytebpe"}, "did you mean 'byte_bpe'"),
        ({"options": {"num_threads": 2}}, "unknown key 'num_threads'"),
        ({"options": {"size": 3}}, "next to `options`"),
        ({"size": 0}, "size"),
    ):
        with refused(message):
            validate(TrainTokenizerConfig, wrong, "recipe")
