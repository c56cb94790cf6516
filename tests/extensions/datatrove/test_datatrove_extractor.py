"""An extractor of datatrove gives the texts that the library gives alone."""

import pytest
from datatrove.pipeline.extractors import Trafilatura

from clozeline import plugins
from clozeline.pipeline.clean.extractors._extraction import ExtractorProcess
from clozeline.pipeline.registries import EXTRACTORS
from tests.refusals import refused

NAME = "datatrove.pipeline.extractors:Trafilatura"
PARAGRAPHS = [
    "The bridge over the river was closed for two years, and the ferry carried everyone.",
    "When it was opened again, the ferryman was given the first ticket, and he kept it.",
]


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "datatrove.pipeline.extractors")


def page(number):
    text = "".join(f"<p>{paragraph} ({number})</p>" for paragraph in PARAGRAPHS)
    return f"<html><body><nav>Home</nav><article>{text}</article></body></html>"


def test_texts_are_those_of_the_library_alone():
    alone = Trafilatura(deduplicate=False)
    entry = {"name": "datatrove", "block": NAME, "options": {"deduplicate": False}}
    process = ExtractorProcess(EXTRACTORS.resolve(entry))

    try:
        for number in range(4):
            found = process.extract(page(number))
            assert found.reason is None
            assert found.text == alone.extract(page(number))
            assert PARAGRAPHS[1] in found.text
        assert process.extract("<html></html>").reason == "extract_empty"
    finally:
        process.close()


def test_an_extractor_that_remembers_pages_is_refused():
    with refused("its answer to the same text changes"):
        EXTRACTORS.resolve({"name": "datatrove", "block": NAME}).build()
