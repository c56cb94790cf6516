"""Every command that reads files of ours, ready to be started many times in one process on finished runs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clozeline.configuration.config import load_config
from clozeline.errors import message_text
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.experiments.multirun.finetuning_scores import score_run
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.failures import explain
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from tests.clozeline.bench import NAMES, STAGES, WITHOUT_FILES, Answer, Bench, spoken
from tests.clozeline.observed import reading
from tests.clozeline.run_bench import RunBench
from tests.commands import command_module
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import tuned_run

NO_READERS = (
    "continue_demo",
    "crawl_site",
    "demo",
    "draw_flow",
    "forgetting",
    "make_gallery",
    "race",
    "study",
    *WITHOUT_FILES,
)
"""Commands that read the network, only what comes with Clozeline, or start other commands, which are hunted."""
_OTHERWISE = ("train", "evaluate", "export_adapter", "finetune", "generate", "pipeline", "export_model",
              "compare_logits", "pseudo_label", *STAGES)  # fmt: skip
"""Commands that are started with words of their own."""


@dataclass(frozen=True)
class Command:
    """One start of a command: `action` returns its answer and the files that it opened."""

    action: Callable[[], tuple[Answer, list[Path]]]
    again: tuple[Path, ...] = ()
    """folders whose records are removed before, so that their units are done again"""
    speaks: bool = True
    """whether its words are a result"""


def _here(action: Callable[[], int], *again: Path, speaks: bool = True) -> Command:
    """Return a command that runs in this process."""

    def start() -> tuple[Answer, list[Path]]:
        with reading() as opened:
            answer = spoken(action, None)
        return answer, opened

    return Command(start, again, speaks)


def _tool(name: str, *words: object) -> Command:
    tool = command_module(name)
    return _here(lambda: tool.main([str(word) for word in words]))


def _train(world: World, words: list[str]) -> tuple[Answer, list[Path]]:
    """Train as `train.command.main` does, on ranks that are kept."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), reading() as opened:
        try:
            code = run(load_config(TrainConfig, Path(words[0]), words[1:]), joined=world)
        except Exception as fault:
            code, message = explain(fault)
            error.write(message_text(message))
    return Answer(code, out.getvalue(), error.getvalue()), opened


class HuntBench:
    """Finished runs of the pipeline, of tasks and of the trainer, and models made of them, below one folder."""

    def __init__(self, folder: Path, ranks: RankPool) -> None:
        self.folder, self._ranks = folder, ranks
        self.whole, self.runs = Bench(folder / "whole"), RunBench(folder / "runs")
        self.commands = {**self._stages(), **self._tools(), **self._models(), **self._trainings()}

    @staticmethod
    def made(folder: Path, ranks: RankPool) -> HuntBench:
        """Make everything."""
        for name in ("whole", "runs", "tuned"):
            (folder / name).mkdir(parents=True)
        whole = Bench.made(folder / "whole")
        shards = open_shards(whole.set)
        last = shards.manifest.shards[-1]
        publish_quarantine(whole.set.parent, [{"shard": last.path, "block": last.blocks - 1, "reason": "a test"}])
        RunBench.made(folder / "runs")
        run = tuned_run(ranks, folder / "tuned", steps=2)
        for seed in (0, 1):
            score_run(run, "train", folder / "tuned" / "scored" / "scores" / f"seed-{seed}.json")
        return HuntBench(folder, ranks)

    def _stages(self) -> dict[str, Command]:
        output, task = self.whole.output, self.whole.folder / "task"
        words = [*self.whole.recipe, f"output={output}", "executor.workers=1"]
        given = [f"input={task / 'files'}", f"tokenizer.path={task / 'words' / 'vocab.txt'}"]
        of_task = ["--config", str(task / "recipe.yaml"), *given, f"output={task / 'out'}", "executor.workers=1"]
        found = {"pipeline": _here(lambda: run_pipeline(words), speaks=False)}
        for name in (*STAGES, "balance"):
            action = lambda name=name: run_stage(name, words)  # noqa: E731
            found |= {name: _here(action, speaks=False), f"{name}, again": _here(action, output / name, speaks=False)}
        of_tasks = {"tokenizer": lambda: run_stage("tokenizer", of_task), "tasks": lambda: run_pipeline(of_task)}
        for name, start in of_tasks.items():
            found |= {name: _here(start, speaks=False)}
            found |= {f"{name}, again": _here(start, task / "out" / name, speaks=False)}
        verify = lambda: run_pipeline([*words, "--verify"])  # noqa: E731
        return found | {"pipeline, verified": _here(verify, speaks=False)}

    def _tools(self) -> dict[str, Command]:
        whole, task = self.whole, self.whole.folder / "task" / "out"
        names = sorted({*NAMES} - {*NO_READERS, *_OTHERWISE})
        found = {name: _tool(name, *whole.words(name)) for name in names}
        for kind in ("export_model", "compare_logits"):
            found[kind] = _tool(kind, *whole.words(kind))
        return found | {
            "validate a task": _tool("validate_shards", task / "tasks/sst2/train"),
            "inspect a task": _tool("inspect_shard", task / "tasks/sst2/train"),
            "verify a task": _tool("verify_counts", task),
            "validate a token set": _tool("validate_shards", whole.output / "encode/manifest.json"),
            "validate a sample set": _tool("validate_shards", next(whole.output.glob("group/*/train"))),
            "report a published tokenizer": _tool("tokenizer_report", task / "tokenizer/tokenizer",
                                                  whole.output / "dedup"),
        }  # fmt: skip

    def _models(self) -> dict[str, Command]:
        found = {}
        for name, (_, action) in self.runs.commands().items():
            found[name] = Command(lambda action=action: self._noted(action))
        return found

    @staticmethod
    def _noted(action: Callable[[], Answer]) -> tuple[Answer, list[Path]]:
        with reading() as opened:
            answer = action()
        return answer, opened

    def _trainings(self) -> dict[str, Command]:
        tuned, runs = self.folder / "tuned", self.runs.folder

        def trained(config: Path, *words: str) -> Command:
            return Command(lambda: self._ranks.run(_train, [str(config), *words])[0], speaks=False)

        return {
            "resume": trained(runs / "encoder.yaml", "steps=4"),
            "resume over nothing new": trained(runs / "encoder.yaml"),
            "resume with a quarantine": trained(self.whole.folder / "train.yaml", "steps=4",
                                                f"data.shards={self.whole.set}", f"output={self.whole.run}"),
            "resume a task": trained(tuned / "train.yaml", "steps=4"),
            "begin a run": trained(runs / "encoder.yaml", "steps=1", f"output={runs / 'new'}"),
            "begin with a model": trained(runs / "begin.yaml", "steps=1", f"output={runs / 'new'}",
                                          f"model.init_from={runs / 'imported'}"),
            "pseudo_label": _tool("pseudo_label", tuned / "run", f"input={self.whole.folder / 'texts.txt'}",
                                  f"output={runs / 'new.tsv'}", "threshold=0"),
            "score a task": _tool("evaluate", tuned / "run", "split=train"),
            "compare scores": _tool("finetune", "--compare", tuned / "scored"),
        }  # fmt: skip
