"""One real use of every command of `clozeline`, on finished runs of the pipeline and the trainer."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.clozeline.bench import Bench
from tests.clozeline.run_bench import RunBench
from tests.distributed import RankPool
from tests.pipeline.miniature import RECIPE, STAGES, text
from tests.tools.experiments.multirun.small_race import entry, write_race, write_sets
from tests.tools.experiments.multirun.small_study import write_study
from tests.tools.runs.evaluation.task_runs import tuned_run

ROOT = Path(__file__).parents[2]
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


@dataclass(frozen=True)
class Uses:
    """The words of each command.

    Args:
        bench: finished runs of the pipeline, of a task and of the trainer, and a published model.
        runs: runs of an encoder, a decoder and an adapter.
        tuned: a run that was trained on the task of its folder.
    """

    bench: Bench
    runs: RunBench
    tuned: Path

    @staticmethod
    def made(whole: Bench, folder: Path) -> Uses:
        """Train what the commands read."""
        ranks = RankPool(1)
        try:
            (folder / "runs").mkdir(parents=True)
            tuned = tuned_run(ranks, folder / "tuned", steps=2)
        finally:
            ranks.close()
        return Uses(whole, RunBench.made(folder / "runs"), tuned)

    def words(self, name: str, bench: Bench, folder: Path) -> list[str]:
        """Return the words of a command.

        Args:
            name: of the command, as `clozeline --help` lists it.
            bench: a copy of `self.bench`, which the command may change.
            folder: empty folder for files that this use needs.
        """
        dashless = name.replace("-", "_")
        labelled = [str(self.tuned), "threshold=0"]
        own: Mapping[str, Callable[[], list[str]]] = {
            "balance": lambda: [*bench.recipe, f"output={bench.output}"],
            "tokenizer": lambda: self._of_task(bench),
            "tasks": lambda: self._of_task(bench),
            "compress": lambda: [str(bench.run), "method=magnitude", "sparsity=0.5", "output=small"],
            "teach": lambda: [str(bench.run), f"data.shards={bench.set}", "output=scores", "k=2", "processes=1"],
            "demo": lambda: ["--output", "demo", "--pages", "150", "--steps", "2"],
            "continue-demo": lambda: ["--output", "continued", "--pages", "150", "--steps", "2"],
            "crawl-site": lambda: [f"http://127.0.0.1:{free_port()}/", "--output", "site.warc.gz"],
            "draw-flow": lambda: ["--output", "flow.svg"],
            "make-gallery": lambda: ["--output", "objectives.md"],
            "race": lambda: [str(self._race(bench, folder)), "--output", str(folder / "raced"), "--seeds", "1"],
            "study": lambda: [*self._study(bench, folder), "--output", "study"],
            "evaluate": lambda: [str(self.tuned), "split=train"],
            "finetune": lambda: self._finetune(folder),
            "forgetting": lambda: self._forgetting(folder),
            "generate": lambda: [str(self.runs.folder / "decoder"), "a text", "max_tokens=3"],
            "export-adapter": lambda: [str(self.runs.folder / "adapted"), "adapter"],
            "fill-mask": lambda: [str(bench.run), "--text", "the <mask> of it", "--heldout", "1"],
            "pseudo-label": lambda: [*labelled, f"input={bench.folder / 'texts.txt'}", "output=labelled.tsv"],
            "train": lambda: ["--config", str(bench.folder / "train.yaml"), f"data.shards={bench.set}", "output=run"],
            "where": lambda: ["train/main.py"],
            "help": lambda: ["where"],
        }  # fmt: skip
        return own[name]() if name in own else bench.words(dashless)

    def undo(self, name: str, bench: Bench) -> None:
        """Remove from a copy what the command is to make."""
        if name in ("tokenizer", "tasks"):
            for stage in ("tokenizer", "tasks")[name == "tasks" :]:
                shutil.rmtree(bench.folder / "task" / "out" / stage)
        elif name == "balance":
            shutil.rmtree(bench.output / name)
        elif name.replace("-", "_") in ("pipeline", *STAGES):
            bench.without_results_of(name.replace("-", "_"))

    def _of_task(self, bench: Bench) -> list[str]:
        """The vocabulary is where it was when the bench was made: its path is part of the configuration."""
        task, vocabulary = bench.folder / "task", self.bench.folder / "task" / "words" / "vocab.txt"
        given = [f"input={task / 'files'}", f"tokenizer.path={vocabulary}"]
        return ["--config", str(task / "recipe.yaml"), *given, f"output={task / 'out'}", "executor.workers=1"]

    def _race(self, bench: Bench, folder: Path) -> Path:
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

    def _study(self, bench: Bench, folder: Path) -> list[str]:
        study = write_study(folder, flops=3e8, one="masked_lm", two="more")
        (study / "pipeline.yaml").write_text(
            f"{_SHORT}corrupt: [{{name: masked_lm, max_length: 48}}, "
            "{name: masked_lm, label: more, max_length: 48, mask_rate: 0.3}]\n"
        )
        return [str(study), "--input", str(bench.folder / "crawl" / "*.jsonl")]

    def _finetune(self, folder: Path) -> list[str]:
        task = self.tuned.parent
        shutil.copy(task / "recipe.yaml", folder / "pipeline.yaml")
        (folder / "train.yaml").write_text(_TASK_TRAINING, encoding="utf-8")
        files = [f"{split}={task / 'files' / f'{split}.tsv'}" for split in ("train", "dev")]
        return [str(self.tuned), f"task={folder}", *files, "output=tuned", "seeds=1"]

    def _forgetting(self, folder: Path) -> list[str]:
        task = self.tuned.parent
        for name in ("first", "second"):
            plain = {"name": name, "shards": str(task / "out" / "tasks" / "sst2" / "train")}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
        tasks = f"tasks=[{folder / 'first.yaml'},{folder / 'second.yaml'}]"
        return [str(self.tuned), tasks, "output=kept", "learned=1", "method=plain", "steps=1", "schedule.warmup=0"]
