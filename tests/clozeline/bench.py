"""Every command of Clozeline as a user starts it: words for each, on finished runs of the pipeline and the trainer."""

from __future__ import annotations

import contextlib
import io
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import yaml

from clozeline.__main__ import commands
from clozeline.configuration.config import load_config
from clozeline.errors import message_text
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.experiments.multirun.finetuning_scores import score_run
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.failures import explain
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from tests.clozeline.observed import reading
from tests.commands import command_module
from tests.distributed import RankPool
from tests.model.checkpoints.published import saved
from tests.pipeline.miniature import RECIPE, STAGES, write_corpus, write_recipe
from tests.tools.runs.evaluation.task_runs import tuned_run
from tests.train.masked_set import write_config

ROOT = Path(__file__).parents[2]
OTHERS = set(all_stages()) - set(STAGES)
NAMES = [name for group in commands().values() for one in group if (name := one.replace("-", "_")) not in OTHERS]
MODULES = {"pipeline": "clozeline.pipeline.execution.recipe_command", "train": "clozeline.train.command"}
WITHOUT_FILES = ("serve_pydoc",)
"""Commands that read and write none."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a command: its exit code, its standard output and its errors."""

    code: int
    out: str
    error: str


def train(world: World, words: list[str], limit: int | None) -> tuple[Answer, list[Path]]:
    """Train as the command does, on a rank of a pool; return also the files that were opened."""

    def start() -> int:
        try:
            return run(load_config(TrainConfig, Path(words[1]), words[2:]), joined=world)
        except Exception as fault:
            code, message = explain(fault)
            sys.stderr.write(message_text(message))
            return code

    with reading() as opened:
        return spoken(start, limit), opened


@contextlib.contextmanager
def disk(limit: int | None) -> Iterator[None]:
    """Let no file grow beyond `limit` bytes; needs no privileges."""
    if limit is None:
        yield
        return
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def spoken(action: Callable[[], int], limit: int | None) -> Answer:
    """Run a command on a disk, and return what it said."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), disk(limit):
        code = action()
    return Answer(code, out.getvalue(), error.getvalue())


class Bench:
    """Finished runs of the pipeline, of a task and of the trainer, and models made of them, below one folder.

    `out` and `task/out` are the pipeline's; `run` (an encoder), `decoder`, `task/run` and `adapted` the trainer's.
    `adapted` is an adapter for `exported`, which is `run` in the form of transformers; `imported` is made of that.
    """

    def __init__(self, folder: Path, ranks: RankPool) -> None:
        self.folder, self.task, self._ranks = folder, folder / "task", ranks
        self.output, self.run, self.new = folder / "out", folder / "run", folder / "new"
        self.set = self.output / "corrupt" / "masked_lm" / "train" / "manifest.json"

    @staticmethod
    def made(folder: Path, ranks: RankPool) -> Bench:
        """Run the pipeline, a task, four trainings of two steps, exports and imports."""
        bench = Bench(folder, ranks)
        folder.mkdir(parents=True)
        short = RECIPE[: RECIPE.index("  - {name: span_corruption")]
        short = short.replace("variants: 2", "variants: 1, block_rows: 16")
        write_recipe(folder, f"{short}  - {{name: causal_lm, max_length: 64}}\nbalance: {{}}\n")
        write_corpus(folder / "crawl", 25)
        assert run_pipeline([*bench.recipe, f"output={bench.output}"]) == 0
        last = open_shards(bench.set).manifest.shards[-1]
        publish_quarantine(bench.set.parent, [{"shard": last.path, "block": last.blocks - 1, "reason": "a test"}])
        saved(folder / "published", "bert", hidden_act="gelu")
        (folder / "task.yaml").write_text(f"name: one\nshards: {bench.set}\n", encoding="utf-8")
        (folder / "texts.txt").write_text("a text\n", encoding="utf-8")
        (folder / "words.txt").write_text("immunology " * 30, encoding="utf-8")
        tuned_run(ranks, bench.task, steps=2)
        for seed in (0, 1):
            score_run(bench.task / "run", "train", folder / "scored" / "scores" / f"seed-{seed}.json")
        bench._train("train", bench.set, bench.run, {"heads": {"masked_lm": 1.0}, "type_vocab_size": 2})
        causal = bench.output / "corrupt" / "causal_lm" / "train" / "manifest.json"
        bench._train("decoder", causal, folder / "decoder", {"family": "decoder", "heads": {"lm": 1.0}})
        exported = str(folder / "exported")
        bench._make("export_model", str(bench.run), exported)
        bench._make("import_model", exported, str(folder / "imported"))
        plain = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
        plain["model"] = {"heads": {"masked_lm": 1.0}}
        (folder / "begin.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
        plain |= {"output": str(folder / "adapted")}
        plain["model"] |= {"init_from": exported, "adapter": {"name": "lora", "rank": 2}}
        (folder / "adapted.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
        bench._make("train", "--config", str(folder / "adapted.yaml"))
        words = [str(bench.run), f"input={folder / 'texts.txt'}", f"output={folder / 'features'}"]
        bench._make("extract_features", *words)
        return bench

    def _train(self, name: str, shards: Path, output: Path, model: dict[str, object]) -> None:
        keys = {f"model__{key}": value for key, value in ({"position": {"maximum": 64}} | model).items()}
        config = write_config(self.folder / f"{name}.yaml", shards, output, steps=2, checkpoint__every=1, **keys)
        self._make("train", "--config", str(config))

    def _make(self, name: str, *words: str) -> None:
        answer = self.answer(name, [*words])
        assert answer.code == 0, answer

    def copy(self, folder: Path) -> Bench:
        """Return the same, below another folder."""
        return Bench(Path(shutil.copytree(self.folder, folder)), self._ranks)

    @property
    def recipe(self) -> list[str]:
        """Words that every stage shares."""
        return ["--config", str(self.folder / "recipe.yaml"), f"input={self.folder / 'crawl' / '*.jsonl'}"]

    def words(self, name: str) -> list[str]:
        """Return the words of a command; a tool without its own is given a shard set."""
        if name == "pipeline" or name in STAGES or name == "balance":
            return [*self.recipe, f"output={self.output}"]
        folder, run, new = self.folder, str(self.run), str(self.new)
        to, page, output = ["--output", new], ["--html", f"{new}/page.html"], f"output={new}"
        published, tuned, texts = str(folder / "published"), str(self.task / "run"), f"input={folder / 'texts.txt'}"
        template = f"template={ROOT / 'configs/prompts/polarity_cloze.yaml'}"
        of_task = ["--config", str(self.task / "recipe.yaml"), f"input={self.task / 'files'}",
                   f"tokenizer.path={self.task / 'words' / 'vocab.txt'}", f"output={self.task / 'out'}"]  # fmt: skip
        shards, heldout = str(self.set), str(self.set.parents[1] / "heldout")
        uid = f"{int(open_shards(self.set).read_block(0).fixed['uid'][0]):016x}" if name == "where_is" else ""
        own = {
            "tokenizer": of_task, "tasks": of_task,
            "train": ["--config", str(folder / "train.yaml"), f"output={run}", f"data.shards={shards}"],
            "crawl_site": ["http://127.0.0.1:9/", "--output", f"{new}/site.warc.gz"],
            "demo": to, "draw_flow": ["--output", f"{new}/flow.svg"], "continue_demo": to,
            "make_gallery": ["--output", f"{new}/objectives.md"],
            "fill_mask": [run, "--heldout", "1"], "verify_counts": [str(self.output)],
            "generate": [str(folder / "decoder"), "a text", "max_tokens=3"], "evaluate": [tuned, "split=train"],
            "compress": [run, "method=magnitude", "sparsity=0.5", output],
            "teach": [run, f"data.shards={shards}", output, "k=2", "processes=1"],
            "finetune": ["--compare", str(folder / "scored")],
            "forgetting": [run, f"tasks={folder / 'task.yaml'}", output, "learned=1"],
            "race": [str(ROOT / "configs/race"), *to], "study": [str(ROOT / "configs/studies/hybrid"), *to],
            "compare_runs": [run, *page], "fisher": [run, output, "rows=2"],
            "export_adapter": [str(folder / "adapted"), new],
            "prompt": [run, template, f"input={self.task / 'files' / 'dev.tsv'}", output],
            "extract_features": [run, texts, output], "neighbors": [str(folder / "features"), "query=0"],
            "pseudo_label": [tuned, "threshold=0", texts, f"output={new}"],
            "extend_tokenizer": [run, f"input={folder / 'words.txt'}", output],
            "import_model": [published, new], "export_model": [published, new],
            "compare_logits": [published, published],
            "tokenizer_report": [str(self.output / "train_tokenizer" / "tokenizer"), str(self.output / "dedup")],
            "explain_batch": [shards, "--step", "1"], "where_is": [shards, "--uid", uid],
            "diff_manifests": [shards, heldout], "merge_manifests": [shards, heldout, *to, "--name", "all"],
            "export_webdataset": [shards, *to], "repack_shards": [shards, *to, "--container", "tar"],
            "inspect_shard": [shards, *page], "shard_stats": [shards, *page],
        }  # fmt: skip
        return own.get(name, [shards])

    def without_results_of(self, name: str) -> None:
        """Remove what a stage, the pipeline or the trainer wrote, so that it is to be made again."""
        if name == "train":
            shutil.rmtree(self.run)
        elif name == "pipeline":
            shutil.rmtree(self.output)
        elif name in STAGES:
            for later in STAGES[STAGES.index(name) :]:
                shutil.rmtree(self.output / later)

    def ask(self, name: str, limit: int | None = None) -> Answer:
        """Start a command; no file may grow beyond `limit` bytes."""
        return self.answer(name, self.words(name), limit)

    def answer(self, name: str, words: list[str], limit: int | None = None) -> Answer:
        """Start a command with these words."""
        return self.answer_and_files(name, words, limit)[0]

    def answer_and_files(self, name: str, words: list[str], limit: int | None = None) -> tuple[Answer, list[Path]]:
        """Start a command; return also the files that it opened. The trainer runs on a rank of its own."""
        if name == "train" and "--dry-run" not in words:
            found: tuple[Answer, list[Path]] = self._ranks.run(train, words, limit)[0]
            return found
        if name in all_stages():
            start = partial(run_stage, name)
        else:  # imported before the disk fills: a library warns where it can write nothing
            start = import_module(MODULES[name]).main if name in MODULES else command_module(name).main
        with reading() as opened:
            return spoken(lambda: start(words), limit), opened
