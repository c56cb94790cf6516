"""Two tasks that pull apart, learned one after the other by every method through the trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import clozeline.tools.experiments.multirun.runner
import clozeline.tools.experiments.multirun.task_sequence
import clozeline.tools.runs.fisher
from clozeline.configuration.config import load_config
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.forgetting import main
from clozeline.tools.experiments.multirun.forgetting_scores import ForgettingOptions
from clozeline.tools.experiments.multirun.task_sequence import TaskSequence, read_tasks
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.evaluation.heldout_score import heldout_score
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.pipeline.task_files import WORDS, write_recipe, write_vocabulary
from tests.tools.runs.evaluation.task_runs import tuned_run


def other_sets(folder: Path) -> Path:
    """The sets of a second task: `fine` or `dull`, in the places of `good` and `bad`."""
    files = folder / "files"
    files.mkdir(parents=True)
    rest = [word for word in WORDS if word not in ("good", "bad", "fine", "dull")]
    for name, first, count in (("train", 0, 60), ("dev", 60, 21)):
        lines = ["sentence\tlabel"]
        for number in range(first, first + count):
            words = [rest[(number * 5 + place * 3) % len(rest)] for place in range(2 + number % 5)]
            lines.append(" ".join([*words, "dull" if number % 2 else "fine"]) + f"\t{number % 2}")
        (files / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    vocabulary, recipe = write_vocabulary(folder / "words"), write_recipe(folder)
    given = [f"input={files}", f"tokenizer.path={vocabulary}", f"output={folder / 'out'}", "executor.workers=1"]
    assert run_pipeline(["--config", str(recipe), *given]) == 0
    return folder / "out" / "tasks" / "sst2"


@pytest.fixture(scope="module")
def setting(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], list[Path]]:
    """A run that has learned the first task, files of both tasks, and their sets."""
    folder = tmp_path_factory.mktemp("forgetting")
    body = tuned_run(one_rank, folder / "first")
    sets = [folder / "first" / "out" / "tasks" / "sst2", other_sets(folder / "second")]
    files = []
    for name, of in zip(("first", "second"), sets, strict=True):
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(f"name: {name}\nshards: {of / 'train'}\n", encoding="utf-8")
    return body, files, sets


def start(world: World, config: Path, words: list[str]) -> int:
    return run(load_config(TrainConfig, config, words), joined=world)


@pytest.fixture
def commands(one_rank: RankPool, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the tool, which run in processes that are there already."""
    seen: list[list[str]] = []

    def step(*command: str | Path, **_: object) -> None:
        words = [str(word) for word in command]
        seen.append(words)
        if words[1] == "train":
            assert one_rank.run(start, Path(words[3]), words[4:]) == [0]
        else:
            assert clozeline.tools.runs.fisher.main(words[2:]) == 0

    for module in (clozeline.tools.experiments.multirun.task_sequence, clozeline.tools.experiments.multirun.runner):
        monkeypatch.setattr(module, "run_step", step)
    return seen


@pytest.mark.slow
def test_every_method_learns_and_the_matrix_is_that_of_the_scores(
    setting: tuple[Path, list[Path], list[Path]], commands: list[list[str]], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Accuracies are those of tools/runs/evaluate.py; what is done is not done again; other words are refused."""
    body, files, sets = setting
    words = [str(body), f"tasks=[{files[0]},{files[1]}]", f"output={tmp_path / 'out'}", "learned=1", "steps=12"]
    assert main([*words, "rows=20", "strength=1000"]) == 0
    found = json.loads((tmp_path / "out" / "forgetting.json").read_text(encoding="utf-8"))
    assert (found["stages"], found["kinds"]) == (["before", "after second"], ["accuracy", "accuracy"])
    assert [*found["methods"]] == ["ewc", "l2_sp", "plain", "replay"]
    runs = {method: tmp_path / "out" / "seed-0" / method / "second" for method in found["methods"]}
    # the first task to be trained here has an earlier one already, so that nothing is shared
    for method, of in runs.items():
        (matrix,) = found["methods"][method]["matrices"]
        for stage, place in enumerate((body, of)):
            for task, folder in enumerate(sets):
                scores = json.loads(evaluate_run(place, EvaluateOptions(split="dev", task=folder)))
                assert matrix[stage][task] == pytest.approx(scores["metrics"]["accuracy"])
        figures = found["methods"][method]["figures"]
        assert figures["forgetting of first"]["mean"] == pytest.approx(matrix[0][0] - matrix[1][0])
        assert figures["backward transfer"]["mean"] == pytest.approx(matrix[1][0] - matrix[0][0])
        assert figures["last task"]["mean"] == matrix[1][1]
    configs = {method: yaml.safe_load((of / "config.yaml").read_text(encoding="utf-8")) for method, of in runs.items()}
    assert {method: (one.get("regularizer") or {}).get("name") for method, one in configs.items()} == {
        "plain": None, "replay": None, "ewc": "ewc", "l2_sp": "l2_sp",
    }  # fmt: skip
    assert configs["replay"]["data"]["weights"] == [0.75, 0.25]
    assert len(configs["replay"]["data"]["shards"]) == 2
    assert configs["ewc"]["regularizer"]["strength"] == 1000.0
    assert configs["l2_sp"]["optimizer"]["weight_decay"] == 0.0
    assert {str(one["model"]["init_from"]) for one in configs.values()} == {str(body)}
    last = json.loads((runs["plain"] / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    (recorded,) = last["heldout"].values()
    model, held = open_run(runs["plain"]).model, open_shards(sets[1] / "dev")
    kind, share = heldout_score(model, held)
    assert kind == "accuracy"
    assert share == pytest.approx(recorded["figures"]["classification/accuracy"])
    assert [words[1] for words in commands] == ["train", "train", "fisher"] + ["train"] * 2
    commands.clear()
    assert main([*words, "rows=20", "strength=1000", "method=[plain,ewc]"]) == 0
    assert commands == []
    printed = capsys.readouterr().out
    assert "plain, 1 seeds" in printed
    assert main([*words, "rows=20", "strength=10"]) == 64
    assert "strength was 1000.0, is 10.0" in capsys.readouterr().err
    assert main([*words, "rows=20", "strength=1000", "method=plain", "seeds=2"]) == 0
    assert [("seed=1" in words) for words in commands] == [True]
    assert main([*words, "rows=20", "strength=1000", "heldout_rows=5"]) == 64
    assert "heldout_rows was None, is 5" in capsys.readouterr().err
    few = [*words[:2], f"output={tmp_path / 'few'}", *words[3:], "method=plain", "heldout_rows=5"]
    assert main(few) == 0
    scored = json.loads((tmp_path / "few" / "scores" / "before.json").read_text(encoding="utf-8"))["scores"]
    assert scored[0] == heldout_score(open_run(body).model, open_shards(sets[0] / "dev"), 5)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tasks=[FIRST]", "learned=1"], "learned: expected fewer than the 1 tasks, got 1"),
        (["tasks=[FIRST,FIRST]"], "expected different names, got 'first' twice"),
        (["tasks=[FIRST,nowhere.yaml]"], "nowhere.yaml: no such file"),
        (["tasks=[FIRST]", "method=mixout"], "method"),
        (["tasks=FIRST", "replay=1"], "replay"),
        ([], "'tasks' is missing"),
    ],
    ids=["learned", "names", "file", "method", "share", "tasks"],
)
@pytest.mark.slow
def test_mistakes(
    setting: tuple[Path, list[Path], list[Path]], words: list[str], said: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    body, files, _ = setting
    given = [word.replace("FIRST", str(files[0])) for word in words]
    assert main([str(body), *given, f"output={tmp_path / 'out'}"]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_replay_mixes_tasks_of_the_same_classes_alone(
    setting: tuple[Path, list[Path], list[Path]], tmp_path: Path
) -> None:
    body, files, _ = setting
    tasks: list[Any] = read_tasks(files, 0)
    sequence = TaskSequence(body, tasks, ForgettingOptions(tasks=files, output=tmp_path), ())
    sequence.check("replay")
    tasks[1].__dict__["signature"] = (("classification",), ("no", "yes"))
    sequence.check("plain")
    with pytest.raises(
        Exception, match="method=replay: expected tasks of the same heads and classes, got first: class"
    ):
        sequence.check("replay")
