"""Boundary F1 on parallel treebanks (Universal Dependencies PUD), whose sentences people split."""

import os
from pathlib import Path

import pytest
import zstandard

from clozeline.pipeline.text.sentences.regex import Regex

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files"),
]


@pytest.mark.parametrize("language", ["ar", "de", "en", "es", "fr", "hi", "ru", "tr", "zh"])
def test_boundaries_of_a_treebank(language):
    path = Path(os.environ["CLOZELINE_DATA"]) / "tasks" / "ud" / f"{language}_pud-ud-test.conllu.zst"
    with path.open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().split("\n")
    sentences = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    between = "" if language == "zh" else " "
    wanted, place = set(), 0
    for sentence in sentences[:-1]:
        place += len(sentence) + len(between)
        wanted.add(place)
    found = set(Regex(Regex.Options()).starts(between.join(sentences), language)) - {0}
    assert 2 * len(found & wanted) / (len(found) + len(wanted)) >= 0.97
