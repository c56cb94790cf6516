"""The default filters keep good texts of every script: the Universal Declaration of Human Rights in
many languages."""

import json
from pathlib import Path

import pytest

from clozeline.pipeline.clean.config import CleanConfig
from clozeline.pipeline.clean.unit import CleaningSteps, SourceSteps
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document

TEXTS = json.loads(Path(__file__).with_name("udhr_sample.json").read_text())
"""Articles from the middle, by BCP 47 code of the language."""


@pytest.fixture(scope="module")
def steps():
    config = CleanConfig()
    tally = UnitCounts(0, 0.0)
    tally.start_file("declaration", [], [])
    return CleaningSteps(SourceSteps(config.extractor, None, config.filters), 10**6, tally), tally


@pytest.mark.parametrize("language", TEXTS)
def test_the_default_filters_keep_the_text(steps, language):
    clean, tally = steps
    kept = clean.clean(Document(bytes(16), TEXTS[language], "declaration"), language.split("-")[0])
    assert kept is not None, tally.rejections[-1]
    assert len(kept.text) > 0.5 * len(TEXTS[language])
