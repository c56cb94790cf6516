"""Plans of studies: equal operations whatever is read, counted a second time from the models themselves."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.model.build import build_model
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.study_plan import load_study, plan_training
from clozeline.train.configuration.config import TrainConfig
from tests.matrices import mark_slow_but
from tests.tools.experiments.multirun.small_study import write_study, write_walks
from tests.train.written_runs import write_run_on


def flops_of_a_row(config, manifest):
    """Return the operations of a mean row of the first block, taken for the set."""
    shards = open_shards(manifest)
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    block = shards.read_block(0)
    lengths, labels = (block.columns[name].lengths.mean() for name in ("input_ids", "label_ids"))
    return model.flops(round(lengths), 0, float(labels))


@pytest.mark.parametrize("name", ["plain", "mixed"])
def test_the_operations_are_those_of_the_study(tmp_path, name):
    folder, sets = write_study(tmp_path), write_walks(tmp_path / "sets")
    study, variants = load_study(folder)
    training = plan_training(folder, study, variants[name], sets, tmp_path / "run", 7)
    config = validate(TrainConfig, training.config, "")
    assert (config.seed, config.data.seed, config.steps) == (7, 7, sum(training.steps))
    shares = [part.share for part in variants[name].phases]
    row = flops_of_a_row(config, sets / "one" / "train")  # both sets have rows of the same lengths
    for steps, share, each in zip(training.steps, shares, training.flops, strict=True):
        assert each == pytest.approx(config.data.global_batch * row, rel=0.01)
        assert abs(steps * each - share * study.flops) <= each / 2
    assert abs(training.total - study.flops) <= sum(training.flops) / 2
    ends = [phase.until_samples for phase in config.data.phases]
    assert ends == [*(config.data.global_batch * sum(training.steps[: n + 1]) for n in range(len(ends) - 1)), None]


def test_a_teacher_in_memory_takes_its_forward_passes(tmp_path):
    """A student's step costs its own operations and a third of a training step of the teacher, of three layers."""
    folder, sets = write_study(tmp_path), write_walks(tmp_path / "sets")
    study, variants = load_study(folder)
    write_run_on(tmp_path / "teacher", sets / "one" / "train", [1], 1, model__layers=3)
    plain = plan_training(folder, study, variants["plain"], sets, tmp_path / "run", 0)
    variants["plain"].train["distil"] = {"teacher": str(tmp_path / "teacher"), "losses": ["scores"]}
    taught = plan_training(folder, study, variants["plain"], sets, tmp_path / "run", 0)
    config = validate(TrainConfig, taught.config, "")
    teacher = flops_of_a_row(replace(config, model=replace(config.model, layers=3)), sets / "one" / "train") / 3
    assert taught.flops[0] - plain.flops[0] == pytest.approx(config.data.global_batch * teacher, rel=0.01)
    assert abs(taught.total - study.flops) <= taught.flops[0] / 2
    assert taught.steps < plain.steps


def test_mistakes_are_named(tmp_path):
    folder, sets = write_study(tmp_path), write_walks(tmp_path / "sets")
    study, variants = load_study(folder)
    with pytest.raises(ConfigurationError, match="less than a step of each part"):
        plan_training(folder, type(study)(title="x", flops=1.0, variants={}), variants["mixed"], sets, tmp_path, 0)
    wrong = (folder / "study.yaml").read_text().replace("higher: mixed", "higher: none")
    (folder / "study.yaml").write_text(wrong)
    with pytest.raises(ConfigurationError, match="no variant none with the measure masked; variants: mixed, plain"):
        load_study(folder)
    (folder / "study.yaml").write_text(wrong.replace("share: 0.7", "share: 0.5"))
    with pytest.raises(ConfigurationError, match="shares that are 1 together"):
        load_study(folder)


STUDIES = Path(__file__).parents[4] / "configs" / "studies"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
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
def test_sets_and_variants_go_together(name, texts, tmp_path):
    """Sets of different kinds in the phases of one variant would end a study after all the others were trained."""
    near = [] if name == "data" else ["dedup.near=null"]
    words = [f"input={texts}", f"output={tmp_path}", "train_tokenizer.size=430", "heldout.fraction=0.1"]
    assert run_pipeline(["--config", str(STUDIES / name / "pipeline.yaml"), *words, *near]) == 0
    study, variants = load_study(STUDIES / name)
    for variant in variants.values():
        training = plan_training(STUDIES / name, study, variant, tmp_path / "corrupt", tmp_path / "run", 0)
        assert training.total == pytest.approx(study.flops, rel=0.005)
