import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from clozeline.configuration.config import to_data, validate
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.tokenizers import byte_bpe, list_trainable, save_tokenizer
from clozeline.pipeline.tokenize.train import sample
from clozeline.pipeline.tokenize.train.config import TrainTokenizerConfig
from clozeline.seeding import fraction
from tests.pipeline.token_sets import files_of
from tests.pipeline.tokenize.encode import encode_passes as passes
from tests.refusals import refused

COUNT = 60


@pytest.mark.parametrize("name", list_trainable())
def test_units_and_threads_do_not_change_the_tokenizer(tmp_path, monkeypatch, name):
    """The files are those of one thread that learns from the sampled texts in order of uid."""
    documents = passes.documents(COUNT)
    budget = 20_000
    kept = [one for one in documents if not is_heldout(one.uid, passes.HELDOUT, passes.SEED)]
    share = budget / sum(len(one.text.encode()) for one in kept)
    texts = [
        one.text
        for one in sorted(kept, key=lambda one: one.uid)
        if fraction(one.uid, "tokenizer", passes.SEED) < share
    ]
    assert 0 < len(texts) < len(kept)

    monkeypatch.setattr(sample, "_RANGE_BYTES", 4096)
    for parts in (1, 4):
        source = passes.write_parts(tmp_path / f"clean{parts}", documents, parts)
        passes.train(source, tmp_path / f"out{parts}", name=name, size=600, budget=budget)

    monkeypatch.setattr(byte_bpe, "os", SimpleNamespace(environ={}))  # no threads
    chosen = TOKENIZERS.resolve({"name": name, "size": 600})
    folder = tmp_path / "direct" / "tokenizer"
    save_tokenizer(chosen.type.train(iter(texts), chosen.options, folder), name, folder)

    wanted = files_of(tmp_path / "direct")
    assert "tokenizer/vocabulary.json" in wanted
    assert files_of(tmp_path / "out1") == files_of(tmp_path / "out4") == wanted


def test_the_library_counts_with_all_cores_and_in_one_thread_afterwards(tmp_path):
    """Words are counted by threads of the library, which workers switch off for encoding."""
    program = """
import os, sys, pathlib
from clozeline.memory import find_cores
from clozeline.pipeline.registries import TOKENIZERS
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.pop("RAYON_NUM_THREADS", None)
chosen = TOKENIZERS.resolve({"name": "byte_bpe", "size": 500})
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
tokenizer = chosen.type.train(["the mask"] * 2000, chosen.options, pathlib.Path(sys.argv[1]))
assert count() - before == find_cores(), (before, count())
assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True)


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
