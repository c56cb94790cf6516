"""The studies that are shipped: every variant can be trained on the sets that its study makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.experiments.multirun.study_plan import load_study, plan_training
from tests.matrices import mark_slow_but

STUDIES = Path(__file__).parents[4] / "configs" / "studies"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = [
        {"text": " ".join(f"The {a} of page {number} met a {b} by the river." for a in ["fox", "hen", "owl", "cat"]
                          for b in ("dog", "cow", "fish"))}
        for number in range(60)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


NAMES = sorted(folder.name for folder in STUDIES.iterdir())


@pytest.mark.parametrize("name", mark_slow_but(NAMES[:1], NAMES))
def test_sets_and_variants_go_together(name: str, texts: Path, tmp_path: Path) -> None:
    """Sets of different kinds in the phases of one variant would end a study after all the others were trained."""
    near = [] if name == "data" else ["dedup.near=null"]
    words = [f"input={texts}", f"output={tmp_path}", "train_tokenizer.size=430", "heldout.fraction=0.1"]
    assert run_pipeline(["--config", str(STUDIES / name / "pipeline.yaml"), *words, *near]) == 0
    study, variants = load_study(STUDIES / name)
    for variant in variants.values():
        training = plan_training(STUDIES / name, study, variant, tmp_path / "corrupt", tmp_path / "run", 0)
        assert training.total == pytest.approx(study.flops, rel=0.005)
