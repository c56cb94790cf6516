import json

import pytest

from clozeline.configuration.config import load_keys
from clozeline.extensions.compression.commands.teach import TeachOptions, main, teach
from clozeline.extensions.compression.distillation import score_shards
from clozeline.extensions.compression.distillation.teacher_model import open_teacher
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import validate
from tests.extensions.tasks.task_runs import start
from tests.matrices import mark_slow_but
from tests.pipeline.corruption_cases import FIRST_CONTENT
from tests.pipeline.task_files import make_sets, make_tagged_sets, make_text_sets
from tests.refusals import refused
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.objective_sets import NUMBERS, write_objective_sets


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank):
    """A folder with shards of three blocks each, a trained `teacher`, and the configuration of a
    student."""
    folder = tmp_path_factory.mktemp("teach")
    shards = write_masked_sets(folder / "sets", rows=75)
    config = write_config(
        folder / "train.yaml",
        shards,
        folder / "teacher",
        evaluate__max_rows=0,
        model__init__std=0.2,
    )

    assert one_rank.run(
        start, config, ["steps=2", "model.layers=4", "optimizer.learning_rate=0.05"]
    ) == [0]

    return folder


def options(folder, output, *words, name="train"):
    shards = f"data.shards={folder / 'sets' / name}"
    return load_keys(TeachOptions, {}, [shards, f"output={output}", "processes=1", *words])


def content(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def words(folder, columns, *more):
    return [f"data.shards={{path: {folder}/sets/train, columns: [{columns}]}}", *more]


@pytest.mark.slow
def test_processes_change_no_byte(folder, tmp_path):
    """Two share the three blocks of one shard.

    A second start of a finished command changes nothing either.
    """
    one = tmp_path / "one"
    two = tmp_path / "two"
    teach(folder / "teacher", options(folder, one, "k=3", "how=drawn", name="heldout"))
    arguments = [
        f"{folder}/teacher",
        f"data.shards={folder}/sets/heldout",
        f"output={two}",
        "k=3",
        "how=drawn",
    ]

    assert main([*arguments, "processes=2"]) == 0
    assert content(one) == content(two)
    assert set(content(one)) == {"index.arrow", "manifest.json", "shard-00000-of-00001.arrow"}

    before = (two / "manifest.json").stat().st_mtime_ns

    assert main(arguments) == 0
    assert (two / "manifest.json").stat().st_mtime_ns == before

    manifest = json.loads((one / "manifest.json").read_text())
    weights = open_teacher(folder / "teacher", None, open_shards(folder / "sets/train"), "RUN")

    assert manifest["config"]["teacher"] == {
        "source": "teacher",
        "digest": weights.weights_digest,
        "head": "masked_lm",
        "k": 3,
        "how": "drawn",
        "temperature": 1.0,
        "seed": 0,
        "batch": 32,
    }
    assert manifest["tokenizer"]["fingerprint"] == "f" * 64


@pytest.mark.parametrize("last", mark_slow_but([4], [0, 1, 4]))
def test_a_killed_command_continues(folder, tmp_path, monkeypatch, last):
    """After any block, of the first shard or the second: what is scored is not scored again."""
    teach(folder / "teacher", options(folder, tmp_path / "entire", "k=3"))

    class Killed(BaseException):
        pass

    score = score_shards.Worker.score
    scored = []

    def score_or_kill(worker, block):
        if scored[-1:] == [last]:
            raise Killed
        score(worker, block)
        scored.append(block)

    with monkeypatch.context() as patch:
        patch.setattr(score_shards.Worker, "score", score_or_kill)
        with pytest.raises(Killed):
            teach(folder / "teacher", options(folder, tmp_path / "killed", "k=3"))

        assert scored == list(range(last + 1))
        assert not (tmp_path / "killed/manifest.json").exists()

        with refused("holds the start of another column set, k 3 there, 4 here"):
            teach(folder / "teacher", options(folder, tmp_path / "killed", "k=4"))

        plan = (tmp_path / "killed/tmp/plan.json").rename(tmp_path / "plan.json")
        with refused("killed"):
            teach(folder / "teacher", options(folder, tmp_path / "killed", "k=3"))

        plan.rename(tmp_path / "killed/tmp/plan.json")
        scored.append(-1)
        teach(folder / "teacher", options(folder, tmp_path / "killed", "k=3"))

    assert scored == [*range(last + 1), -1, *range(last + 1, 6)]
    assert content(tmp_path / "killed") == content(tmp_path / "entire")

    with refused("holds another set, toy/train/teacher, k 3 there, 4 here: choose"):
        teach(folder / "teacher", options(folder, tmp_path / "killed", "k=4"))


def counting(objective):
    return lambda folder: write_objective_sets(folder, objective, rows=40, heldout=8).parent


TAUGHT = {
    "decoder": (counting("causal_lm"), "decoder", "lm", FIRST_CONTENT + NUMBERS),
    "encoder-decoder": (
        counting("span_corruption"),
        "encoder_decoder",
        "lm",
        FIRST_CONTENT + NUMBERS,
    ),
    "answers in words": (
        lambda folder: make_text_sets(folder) / "train",
        "encoder_decoder",
        "lm",
        21,
    ),
    "classes": (lambda folder: make_sets(folder) / "train", "encoder", "classification", 2),
    "tags": (lambda folder: make_tagged_sets(folder) / "train", "encoder", "tagging", 3),
}
"""By what is taught: writer of a set below a folder, family, head, and classes."""


@pytest.mark.parametrize("case", mark_slow_but(["classes"], TAUGHT))
def test_what_is_taught_is_learned(case, tmp_path, one_rank):
    """Scores of all classes give the losses of two steps with the live teacher.

    Draws train, too.
    """
    write, family, head, classes = TAUGHT[case]
    shards = write(tmp_path)
    config = write_config(
        tmp_path / "train.yaml",
        shards,
        tmp_path / "teacher",
        model__family=family,
        model__heads={head: {}},
        model__position={"maximum": 64},
        model__init={"std": 0.2},
        evaluate__max_rows=0,
        steps=2,
        model__dropout={},
    )

    assert one_rank.run(start, config, ["model.layers=3"]) == [0]

    for how, k in (("top", classes), ("drawn", 5)):
        columns = [
            f"data.shards={shards}",
            f"output={tmp_path / how}",
            f"k={k}",
            f"how={how}",
            "processes=1",
        ]

        assert main([f"{tmp_path}/teacher", *columns]) == 0

    scores = validate(tmp_path / "top", shards, teacher=tmp_path / "teacher").scores

    assert scores is not None
    assert scores.computed_again > 0

    losses = {}

    for name, *changes in (
        ("live", f"distil={{teacher: {tmp_path}/teacher}}"),
        (
            "top",
            f"data.shards={{path: {shards}, columns: [{tmp_path}/top]}}",
            "distil={losses: [scores]}",
        ),
        (
            "drawn",
            f"data.shards={{path: {shards}, columns: [{tmp_path}/drawn]}}",
            "distil={losses: [{name: scores, how: drawn}]}",
        ),
    ):
        assert one_rank.run(
            start, config, [f"output={tmp_path / name}-run", *changes, "seed=9"]
        ) == [0]
        lines = (tmp_path / f"{name}-run/metrics.jsonl").read_text().splitlines()
        records = [json.loads(line)["losses"] for line in lines if '"losses"' in line]
        losses[name] = [record["distil/scores"] for record in records]

    assert len(losses["live"]) == len(losses["drawn"]) == 2
    # weights of a task's few classes are stored in fp16
    assert losses["top"] == pytest.approx(losses["live"], rel=2e-3 if classes < 5 else 1e-5)
