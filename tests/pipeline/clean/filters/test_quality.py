from pathlib import Path

import pytest

from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text import fasttext_model
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.fasttext_languages import ENGLISH, FRENCH, MODEL
from tests.refusals import refused

# the quality of a text is how English it is

CASES = {"low_quality": FRENCH}


def options_in(folder):
    return {"model": str(MODEL), "label": "__label__en", "threshold": 0.5}


def judge(text, **options):
    entry = {"name": "quality", **options_in(Path()), **options}
    return judge_text(FILTERS.resolve(entry).build(), text)


def expected(text):
    """The library's answer for a text on one line."""
    import fasttext

    labels, scores = fasttext.load_model(str(MODEL)).predict(text, k=-1)
    return round(dict(zip(labels, scores, strict=True))["__label__en"], 6)


def test_a_threshold_compares_the_probability_of_the_label():
    low = judge(FRENCH)
    high = judge(ENGLISH)

    assert (low.reason, low.columns) == ("low_quality", {"quality": expected(FRENCH)})
    assert low.detail == f"{expected(FRENCH):.4f} < 0.5"
    assert (high.reason, high.columns) == ("", {"quality": min(1.0, expected(ENGLISH))})

    score = judge(FRENCH, threshold=0).columns["quality"]

    assert judge(FRENCH, threshold=score).reason == ""
    assert judge(FRENCH, label="__label__fr").reason == ""


def test_a_label_that_the_model_lacks_is_refused():
    with refused("has no label '__label__hq'; set `label` to one of its 176"):
        judge("text", label="__label__hq")


@pytest.mark.parametrize("kind", ["text", "half", "empty"])
def test_a_damaged_model_is_refused(tmp_path, kind, monkeypatch):
    """The library itself does not return from some of them."""
    monkeypatch.setattr(fasttext_model, "_LOAD_SECONDS", 1)
    content = {
        "text": b"not a model " * 99,
        "half": MODEL.read_bytes()[: 1 << 14],
        "empty": b"",
    }[kind]
    (tmp_path / "model.bin").write_bytes(content)
    with refused(r"model\.bin: expected a fastText classifier"):
        judge("text", model=str(tmp_path / "model.bin"))
