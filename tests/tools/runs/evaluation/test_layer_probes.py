"""Layer probes of untrained models: the embeddings know a word, the layers above its neighbors as well."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.__main__ import main as run_pipeline
from clozeline.tools.runs.evaluate import main
from clozeline.train.startup.open_run import open_run
from tests.pipeline.task_files import make_sets, write_vocabulary
from tests.train.written_runs import write_run_on

FILLERS = ("film", "one", "with", "heart")


@pytest.fixture(scope="module")
def run_and_task(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Sentences in which the class of `plot` is told by the word before it, and an untrained encoder."""
    folder = tmp_path_factory.mktemp("probe")
    files, draws = folder / "files", np.random.default_rng(3)
    files.mkdir()
    for name, count in (("train", 160), ("dev", 60)):
        lines = []
        for _ in range(count):
            good = bool(draws.integers(2))
            before, after = draws.choice(FILLERS, 2).tolist(), draws.choice(FILLERS, 1).tolist()
            tagged = [*((word, "DET") for word in before), ("good" if good else "bad", "ADJ")]
            tagged += [("plot", "NOUN" if good else "VERB"), *((word, "DET") for word in after)]
            lines += [f"{at}\t{word}\t_\t{tag}{chr(9)}_\t_\t_\t_\t_\t_" for at, (word, tag) in enumerate(tagged, 1)]
            lines.append("")
        (files / f"{name}.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = folder / "recipe.yaml"
    reader = "{name: conllu, task: toy, column: upos}"
    recipe.write_text(f"corpus: toy\nseed: 1\ntasks:\n  reader: {reader}\n  max_length: 16\n", encoding="utf-8")
    words = [f"input={files}", f"tokenizer.path={write_vocabulary(folder / 'words')}", f"output={folder / 'out'}"]
    assert run_pipeline(["--config", str(recipe), *words]) == 0
    task = folder / "out" / "tasks" / "toy"
    model = {"model__dropout": {}, "model__init": {"std": 0.3}}
    write_run_on(folder / "run", task / "train" / "manifest.json", [1], 1, **model)
    return folder / "run", task


def test_layers_with_attention_know_the_neighbors(
    run_and_task: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run, task = run_and_task
    assert main([str(run), "probe=layers", f"task={task}", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    layers = open_run(run).model.config.layers
    assert len(scores["layers"]) == layers + 1
    assert (scores["train_words"], scores["words"], scores["ambiguous_words"]) == (160 * 5, 60 * 5, 60)
    usual = scores["baselines"]["most_frequent_tag"]
    # words tell everything but the class of `plot`
    assert usual["accuracy"] == pytest.approx(0.8 + 0.2 * usual["ambiguous_accuracy"])
    assert scores["layers"][0]["ambiguous_accuracy"] == pytest.approx(usual["ambiguous_accuracy"], abs=0.2)
    assert scores["layers"][0]["accuracy"] < 0.95
    assert scores["layers"][layers]["accuracy"] > 0.97
    assert main([str(run), "probe=layers", f"task={task}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("toy dev by layer, step 1: 300 words, 60 ambiguous; probes learned from 800 words")
    assert [line.split()[0] for line in lines[2:]] == [*map(str, range(layers + 1)), "baseline"]


def test_what_cannot_be_probed_is_refused(
    run_and_task: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, task = run_and_task
    assert main([str(run), "probe=layers"]) == 64
    assert "'task' is missing" in capsys.readouterr().err
    sets = make_sets(tmp_path)
    assert main([str(run), "probe=layers", f"task={sets}"]) == 64
    assert "is a task of classification, expected one of tagged words" in capsys.readouterr().err
    assert main([str(run), "probe=layers", f"task={task}", "split=test"]) == 64
    assert "holds no such split" in capsys.readouterr().err
