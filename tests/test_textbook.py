"""The page of lectures: its commands print what it says, and its files are read by the tools that
it names."""

import contextlib
import io
import json
import re
import shlex
import unittest.mock
from itertools import pairwise
from pathlib import Path

import pytest

from clozeline.__main__ import main
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer

ROOT = Path(__file__).parents[1]
TEXTBOOK = ROOT / "configs" / "textbook"
PAGE = (ROOT / "docs" / "textbook.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def printed(command):
    """What a command prints, without blanks at the ends of lines."""
    output = io.StringIO()
    with unittest.mock.patch("sys.argv", shlex.split(command)), contextlib.redirect_stdout(output):
        assert main() == 0, command
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the commands of the page ran that need no trained model, and compares what
    they print."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "configs").symlink_to(ROOT / "configs")

    with contextlib.chdir(folder):
        for (language, commands), (following, shown) in pairwise([*BLOCKS, ("", "")]):
            if language == "sh" and not re.search(
                r"MASKED|CAUSAL|SHARDS|clozeline (study|forgetting)", commands
            ):
                texts = [printed(command) for command in commands.splitlines()]
                assert following != "text" or "\n\n".join(texts) == shown.rstrip()

    return folder


def test_merges_and_pictures_are_those_of_the_page(folder):
    for name, count in {"merges": 10, "merges_lecture": 8}.items():
        file = folder / "data" / name / "train_tokenizer/tokenizer/tokenizer.json"
        merges = json.loads(file.read_text(encoding="utf-8"))["model"]["merges"][:count]
        assert ", ".join("".join(pair) for pair in merges) in PAGE

    pictures = sorted((folder / "docs" / "pictures").iterdir())

    assert len(pictures) == 4
    assert all(
        picture.read_bytes() == (ROOT / "docs/pictures" / picture.name).read_bytes()
        for picture in pictures
    )


def test_verbs_are_made_by_the_rule_of_the_page(folder):
    """A quarter of the forms is unknown as words, and none of them to the other tokenizers."""
    persons = "123456"
    objects = ("ni1", "ku2", "mw3", "tu4", "wa6")
    # the same person, or "I" and "we", "you" and "you all": no form
    near = {"11", "14", "41", "44", "22", "25", "52"}
    tables = (
        (("ni", "u", "a", "tu", "m", "wa"), ("na", "li", "ta", "me", "ki")),
        (("si", "hu", "ha", "hatu", "ham", "hawa"), ("ku", "ta", "ja")),
    )
    forms = set()
    for subjects, tenses in tables:
        for person, subject in zip(persons, subjects, strict=True):
            for tense in tenses:
                pairs = [each for each in objects if person + each[-1] not in near]
                forms.add(f"{subject}{tense}ambiwa")
                forms.update(f"{subject}{tense}{each[:-1]}ambia" for each in pairs)
    lines = (TEXTBOOK / "swahili.txt").read_text(encoding="utf-8").splitlines()

    assert len(lines) == 240
    assert {*lines} == forms

    unknown = {}
    tokens = {}
    for name in ("words", "pieces", "letters"):
        tokenizer = load_tokenizer(folder / f"data/verb_{name}/train_tokenizer/tokenizer")
        encoded = [encoding.ids.tolist() for encoding in tokenizer.encode(lines)]
        unk = tokenizer.vocabulary.specials["unk"]
        unknown[name] = sum(unk in ids for ids in encoded)
        tokens[name] = round(sum(map(len, encoded)) / len(lines))

    assert unknown == {"words": 51, "pieces": 0, "letters": 0}
    assert tokens == {"words": 1, "pieces": 3, "letters": 11}


def test_sentences_of_tasks_are_read(folder):
    words = (
        f"input={TEXTBOOK / 'senses'} tokenizer.path={folder / 'data/bytes'} "
        f"output={folder / 'data/senses'}"
    )
    printed(f"clozeline tasks --config {TEXTBOOK / 'pipeline_senses.yaml'} {words}")
    sizes = {"t5_tasks/tasks/t5/train": 10, "next/tasks/next/train": 5}
    sizes |= {"senses/tasks/senses/train": 24, "senses/tasks/senses/dev": 12}

    assert {name: len(open_shards(folder / "data" / name)) for name in sizes} == sizes
