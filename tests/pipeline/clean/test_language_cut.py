"""Thresholds of languages from their own scores, against the statistics module and a plain selection."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.config import LanguageCut
from clozeline.pipeline.clean.languages.py3langid import Py3langid
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.stage_keys import stage_key
from clozeline.pipeline.execution.stage_order import check_recipe
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pages import checked
from tests.pipeline.clean.cleaning import Cleaned, recipe_for, run_clean
from tests.pipeline.clean.filters.test_quality import write_model


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(0, 500), st.integers(500, 1000))
def test_the_threshold_is_that_of_the_sorted_scores(scores: list[int], low: int, high: int) -> None:
    chosen = LanguageCut(low=low / 1000, high=high / 1000).choose(
        {str(score): n for score, n in Counter(scores).items()}
    )
    median, deviation = statistics.median_low(scores) / 1000, statistics.pstdev(scores) / 1000
    assert chosen["documents"] == len(scores)
    assert chosen["median"] == median
    assert chosen["deviation"] == pytest.approx(deviation, abs=1e-6)
    assert chosen["threshold"] == pytest.approx(max(low / 1000, min(high / 1000, median - deviation)), abs=1e-6)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Texts that say their language and score; the identifier reads them."""
    monkeypatch.setattr(Py3langid, "identify", lambda self, text: (text.split()[0], float(text.split()[1])))
    (tmp_path / "texts").mkdir()
    for number, (language, score) in enumerate(TEXTS):
        with (tmp_path / "texts" / f"{number % 3}.jsonl").open("a") as file:
            file.write(json.dumps({"text": f"{language} {score} {number}"}) + " " * 150 + "\n")
    return f"{tmp_path}/texts/*.jsonl"


TEXTS = [
    *(("de", score / 100) for score in range(52, 100, 2)),
    *(("th", score / 100) for score in (5, 21, 35, 38, 41, 44, 52)),
    *(("en", 0.999) for _ in range(9)),
    *(("it", 0.5) for _ in range(3)),  # exactly at their threshold
    *(("xx", 0.9) for _ in range(3)),
    *(("fr", score / 100) for score in (20, 50, 95)),
]
KEEP = ["de", "en", "fr", "it", "th"]


def expected_thresholds() -> dict[str, float]:
    thresholds = {}
    for language in ("de", "en", "it", "th"):
        scores = [score for name, score in TEXTS if name == language]
        thresholds[language] = max(0.3, min(0.9, statistics.median_low(scores) - statistics.pstdev(scores)))
    return thresholds


def run(source: Any, output: Path, **keys: Any) -> Cleaned:
    language = {"name": "py3langid", "keep": KEEP, "thresholds": {"fr": 0.5}, "long_threshold": 0.9}
    return run_clean(source, output, {"language": language, "filters": [], "language_cut": {}}, **keys)


def test_each_language_has_its_threshold_for_any_tasks_and_units(tmp_path: Path, texts: str) -> None:
    thresholds = {**expected_thresholds(), "fr": 0.5}
    kept = {number for number, (language, score) in enumerate(TEXTS) if score >= thresholds.get(language, 2)}
    outputs = []
    for name, keys in (("one", {}), ("two", {"executor": {"tasks": 2, "workers": 1}, "plan": {"unit_bytes": 4096}})):
        done = run(texts, tmp_path / name, **keys)
        assert {int(each.text.split()[2]) for each in done.documents} == kept
        assert done.nonzero("rejected") == {"language": 3, "language_score": len(TEXTS) - 3 - len(kept)}
        assert len(done.rejects) == len(TEXTS) - len(kept)
        assert done.nonzero("languages") == Counter(TEXTS[number][0] for number in kept)
        write_run_report(tmp_path / name, ["clean"])
        assert verify_counts([str(tmp_path / name)]) == 0
        outputs.append(sorted(each.uid for each in done.documents))
        cuts = json.loads((done.folder / "language_cuts.json").read_text())
        assert {language: cut["threshold"] for language, cut in cuts.items()} == pytest.approx(
            expected_thresholds(), abs=1e-3
        )
        assert cuts["th"]["documents"] == 7, "all documents of the language count, also those below `low`"
    assert outputs[0] == outputs[1]


def test_the_page_shows_the_thresholds(tmp_path: Path, texts: str) -> None:
    run(texts, tmp_path / "out")
    cells = checked(write_run_report(tmp_path / "out", ["clean"]).read_text()).cells
    cuts = json.loads((tmp_path / "out" / "clean" / "language_cuts.json").read_text())
    row = cells[cells.index("threshold") + 1 :][:5]
    assert row == ["de", *(str(cuts["de"][key]) for key in ("documents", "median", "deviation", "threshold"))]


def test_without_the_key_the_digest_is_as_before(tmp_path: Path, texts: str) -> None:
    keys = [
        stage_key(CleanStage(recipe_for(texts, tmp_path / "out", {"filters": [], **more})), "")
        for more in ({}, {"language_cut": None}, {"language_cut": {}}, {"language_cut": {"high": 0.8}})
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_changed_rule_cleans_runs_with_a_cut_again(
    tmp_path: Path, texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs_again(name: str, more: dict[str, Any]) -> bool:
        clean = {"language": {"name": "py3langid", "keep": KEEP}, "filters": [], **more}
        return not run_clean(texts, tmp_path / name, clean).summary.skipped

    for _ in range(2):
        first = runs_again("cut", {"language_cut": {}}), runs_again("plain", {})
    assert first == (False, False)
    monkeypatch.setattr("clozeline.pipeline.clean.stage.LANGUAGE_CUT_VERSION", 2)
    assert (runs_again("cut", {"language_cut": {}}), runs_again("plain", {})) == (True, False)


def test_a_share_of_documents_and_bounds_in_the_wrong_order_are_refused(tmp_path: Path, texts: str) -> None:
    model = str(write_model(tmp_path / "model.npz", {"word": 1.0}))
    clean: dict[str, Any] = {"filters": [{"name": "quality", "model": model, "keep": 0.5}], "language_cut": {}}
    with pytest.raises(ConfigurationError, match="expected `language_cut` or `keep` of quality, got both"):
        check_recipe(recipe_for(texts, tmp_path / "out", clean))
    with pytest.raises(ConfigurationError, match=r"low 0\.95 exceeds high 0\.9"):
        recipe_for(texts, tmp_path / "out", {"filters": [], "language_cut": {"low": 0.95}})
