"""Scores of a small fine-tuned run, against its own evaluation in training, from one process and
from several."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.extensions.evaluation.commands import evaluate
from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, main, score_task
from tests.distributed import RankPool


def test_the_score_is_that_of_the_trainer(tuned, capsys, tmp_path):
    assert main([str(tuned), "--json", f"output={tmp_path}/scores.json"]) == 0

    printed = capsys.readouterr().out

    assert (tmp_path / "scores.json").read_text() == printed

    scores = json.loads(printed)
    lines = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    own = next(line["heldout"]["dev"] for line in reversed(lines) if line.get("heldout"))

    assert scores["metrics"]["accuracy"] == pytest.approx(own["figures"]["classification/accuracy"])
    assert (scores["task"], scores["split"], scores["n"], scores["seed"]) == ("sst2", "dev", 21, 7)

    assert scores["baselines"]["words"]["accuracy"] == 1.0
    assert main([str(tuned), "--json", "metrics=[log_loss, macro_f1]"]) == 0

    scores = json.loads(capsys.readouterr().out)

    assert scores["metrics"].keys() == {"log_loss", "macro_f1"}
    assert scores["metrics"]["log_loss"] == pytest.approx(own["losses"]["classification"], rel=1e-5)
    assert scores["baselines"]["words"] == {"macro_f1": 1.0}


def _evaluated(world, run):
    return score_task(EvaluateOptions(run=run, split="train"), world)[0]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_the_bytes_do_not_depend_on_the_processes(tuned, size):
    """60 rows in batches of 32 leave a third process without one."""
    pool = RankPool(size)

    try:
        texts = pool.run(_evaluated, tuned)
    finally:
        pool.close()

    assert texts == [score_task(EvaluateOptions(run=tuned, split="train"))[0]] * size


def test_a_script_hides_no_library(tmp_path):
    """`extensions/evaluation/commands/evaluate.py` and the library `evaluate` have one name."""
    (tmp_path / "evaluate.py").write_text("CASES = 7\n")
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import runpy, sys\nsys.path[0] = "
        f"{str(Path(evaluate.__file__).parent)!r}\nsys.path.append({str(tmp_path)!r})\nsys.argv = "
        "['evaluate.py', '--help']\ntry:\n    "
        f"runpy.run_path({str(Path(evaluate.__file__))!r}, "
        "run_name='__main__')\nexcept SystemExit:\n    import evaluate\n    print(evaluate.CASES)\n"
    )

    done = subprocess.run([sys.executable, str(probe)], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("7\n")


@pytest.mark.parametrize("word", ["step=5", "metrics=[bleu]", "tune=true"])
def test_mistakes(tuned, capsys, word):
    assert main([str(tuned), word]) == 64
    assert word.partition("=")[0] in capsys.readouterr().err
