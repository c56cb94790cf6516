"""One real use of every command of `clozeline`, on finished runs of the pipeline and the trainer."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import yaml

from clozeline.pipeline.execution.stage_order import all_stages
from tests.clozeline.bench import Bench
from tests.pipeline.miniature import RECIPE, text
from tests.tools.experiments.multirun.small_race import entry, write_race, write_sets
from tests.tools.experiments.multirun.small_study import write_study

_SHORT = RECIPE[: RECIPE.index("corrupt:")]
_TASK_TRAINING = (
    "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: 0.01}\n"
    "schedule: {name: linear, warmup: 1}\ndata: {global_batch: 16, lanes: 4, micro_batch: 8}\nsteps: 2\n"
)
CODES = {"diff-manifests": 1}
"""Exit codes of uses that find what they look for; all others end with 0."""


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def words(name: str, bench: Bench, folder: Path) -> list[str]:
    """Return the words of a command; those of the bench, where they do all that a user wants of it.

    Args:
        name: of the command, as `clozeline --help` lists it.
        bench: a copy, which the command may change.
        folder: empty folder for files that this use needs.
    """
    own: dict[str, Callable[[], list[str]]] = {
        "demo": lambda: ["--output", "demo", "--pages", "150", "--steps", "2"],
        "continue-demo": lambda: ["--output", "continued", "--pages", "150", "--steps", "2"],
        "crawl-site": lambda: [f"http://127.0.0.1:{free_port()}/", "--output", "site.warc.gz"],
        "race": lambda: [str(_race(folder)), "--output", str(folder / "raced"), "--seeds", "1"],
        "study": lambda: [*_study(bench, folder), "--output", "study"],
        "finetune": lambda: _finetune(bench, folder),
        "forgetting": lambda: _forgetting(bench, folder),
        "fill-mask": lambda: [str(bench.run), "--text", "the <mask> of it", "--heldout", "1"],
        "train": lambda: ["--config", str(bench.folder / "train.yaml"), f"data.shards={bench.set}", "output=run"],
        "where": lambda: ["train/main.py"],
        "help": lambda: ["where"],
    }
    return own[name]() if name in own else bench.words(name.replace("-", "_"))


def undo(name: str, bench: Bench) -> None:
    """Remove from a copy what a stage or the pipeline is to make."""
    stages = all_stages()
    for stage in stages if name == "pipeline" else stages[stages.index(name) :] if name in stages else []:
        of_task = name in ("tokenizer", "tasks")
        shutil.rmtree((bench.task / "out" if of_task else bench.output) / stage, ignore_errors=True)


def _race(folder: Path) -> Path:
    """Write a race of one entry, and the pages that its sets are made of."""
    pages = folder / "raced" / "pages"
    pages.mkdir(parents=True)
    for number in range(200):
        (pages / f"{number}.txt").write_text(text(number, 20), encoding="utf-8")
    plain = entry(steps=4, schedule__steps=4, data__global_batch=8)
    race = write_race(folder / "race", write_sets(folder / "other"), plain=plain)
    several = _SHORT.replace("shard_bytes: 60000", "shard_bytes: 4096").replace("fraction: 0.1", "fraction: 0.3")
    (race / "pipeline.yaml").write_text(f"{several}corrupt: [{{name: masked_lm, max_length: 64}}]\n")
    return race


def _study(bench: Bench, folder: Path) -> list[str]:
    study = write_study(folder, flops=3e8, one="masked_lm", two="more")
    (study / "pipeline.yaml").write_text(
        f"{_SHORT}corrupt: [{{name: masked_lm, max_length: 48}}, "
        "{name: masked_lm, label: more, max_length: 48, mask_rate: 0.3}]\n"
    )
    return [str(study), "--input", str(bench.folder / "crawl" / "*.jsonl")]


def _finetune(bench: Bench, folder: Path) -> list[str]:
    shutil.copy(bench.task / "recipe.yaml", folder / "pipeline.yaml")
    (folder / "train.yaml").write_text(_TASK_TRAINING, encoding="utf-8")
    files = [f"{split}={bench.task / 'files' / f'{split}.tsv'}" for split in ("train", "dev")]
    return [str(bench.task / "run"), f"task={folder}", *files, "output=tuned", "seeds=1"]


def _forgetting(bench: Bench, folder: Path) -> list[str]:
    for name in ("first", "second"):
        plain = {"name": name, "shards": str(bench.task / "out" / "tasks" / "sst2" / "train")}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    tasks = f"tasks=[{folder / 'first.yaml'},{folder / 'second.yaml'}]"
    return [str(bench.task / "run"), tasks, "output=kept", "learned=1", "method=plain", "steps=1", "schedule.warmup=0"]
