"""Every command of Clozeline as a user starts it: words for each, on a run of the pipeline and one of the trainer."""

from __future__ import annotations

import contextlib
import io
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clozeline.__main__ import commands
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from tests.commands import command_module
from tests.distributed import run_ranks
from tests.model.checkpoints.published import saved
from tests.pipeline.miniature import RECIPE, STAGES, write_corpus, write_recipe
from tests.pipeline.task_files import make_sets
from tests.train.masked_set import write_config

OTHERS = set(all_stages()) - set(STAGES)
NAMES = [name for group in commands().values() for one in group if (name := one.replace("-", "_")) not in OTHERS]
WITHOUT_FILES = ("serve_pydoc",)
"""Commands that read and write none."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a command: its exit code, its standard output and its errors."""

    code: int
    out: str
    error: str


def train(words: list[str], limit: int | None) -> int:
    """Run the trainer in a process of its own, whose output is a file: it is written once the disk is whole again."""
    from clozeline.train.command import main

    answer = spoken(lambda: main(words), limit)
    sys.stdout.write(answer.out)
    sys.stderr.write(answer.error)
    return answer.code


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
    """A finished run of the pipeline and one of the trainer, below a folder that may be damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output, self.run, self.new = folder / "out", folder / "run", folder / "new"
        self.set = self.output / "corrupt" / "masked_lm" / "train" / "manifest.json"

    @staticmethod
    def made(folder: Path) -> Bench:
        """Run the pipeline, two steps of the trainer, the pipeline of a task, and an import."""
        bench = Bench(folder)
        short = RECIPE[: RECIPE.index("  - {name: span_corruption")].replace(
            "variants: 2", "variants: 1, block_rows: 16"
        )
        write_recipe(folder, f"{short}balance: {{}}\n")
        write_corpus(folder / "crawl", 25)
        assert run_pipeline([*bench.recipe, f"output={bench.output}"]) == 0
        write_config(
            folder / "train.yaml", bench.set, bench.run, steps=2, checkpoint__every=1, model__position__maximum=64
        )
        finished = run_ranks(1, train, bench.words("train"), None, folder=folder)
        assert finished.codes == [0], finished.errors
        saved(folder / "published", "bert", hidden_act="gelu")
        imported = bench.answer("import_model", [str(folder / "published"), str(folder / "imported")])
        assert imported.code == 0, imported
        make_sets(folder / "task", "executor.workers=1")
        (folder / "task.yaml").write_text(f"name: one\nshards: {bench.set}\n", encoding="utf-8")
        (folder / "texts.txt").write_text("a text\n", encoding="utf-8")
        (folder / "words.txt").write_text("immunology " * 30, encoding="utf-8")
        words = [str(bench.run), f"input={folder / 'texts.txt'}", f"output={folder / 'features'}"]
        assert bench.answer("extract_features", words).code == 0
        publish_quarantine(bench.set.parent, [])
        return bench

    def copy(self, folder: Path) -> Bench:
        """Return the same, below another folder."""
        return Bench(Path(shutil.copytree(self.folder, folder)))

    @property
    def recipe(self) -> list[str]:
        """Words that every stage shares."""
        return ["--config", str(self.folder / "recipe.yaml"), f"input={self.folder / 'crawl' / '*.jsonl'}"]

    @property
    def prompted(self) -> list[str]:
        """Words of a prompt: its template and the rows of the task."""
        template = Path(__file__).parents[2] / "configs" / "prompts" / "polarity_cloze.yaml"
        return [f"template={template}", f"input={self.folder / 'task' / 'files' / 'dev.tsv'}", f"output={self.new}"]

    def words(self, name: str) -> list[str]:
        """Return the words of a command; a tool without its own is given a shard set."""
        if name == "pipeline" or name in STAGES:
            return [*self.recipe, f"output={self.output}"]
        new, page = ["--output", str(self.new)], ["--html", str(self.new / "page.html")]
        published = str(self.folder / "published")
        own = {
            "train": ["--config", str(self.folder / "train.yaml"), f"output={self.run}", f"data.shards={self.set}"],
            "crawl_site": ["http://127.0.0.1:9/", "--output", str(self.new / "site.warc.gz")],
            "demo": new, "draw_flow": ["--output", str(self.new / "flow.svg")],
            "make_gallery": ["--output", str(self.new / "objectives.md")],
            "fill_mask": [str(self.run), "--heldout", "1"], "verify_counts": [str(self.output)],
            "generate": [str(self.run), "a text"], "evaluate": [str(self.run), "split=heldout"], "continue_demo": new,
            "compress": [str(self.run), "method=magnitude", "sparsity=0.5", f"output={self.new}"],
            "teach": [str(self.run), f"data.shards={self.set}", f"output={self.new}", "k=2", "processes=1"],
            "finetune": ["--compare", str(self.run)],
            "forgetting": [str(self.run), f"tasks={self.folder / 'task.yaml'}", f"output={self.new}", "learned=1"],
            "race": [str(Path(__file__).parents[2] / "configs/race"), *new],
            "study": [str(Path(__file__).parents[2] / "configs/studies/hybrid"), *new],
            "compare_runs": [str(self.run), *page],
            "fisher": [str(self.run), f"output={self.new}", "rows=2"],
            "export_adapter": [str(self.run), str(self.new)], "prompt": [str(self.run), *self.prompted],
            "extract_features": [str(self.run), f"input={self.folder / 'texts.txt'}", f"output={self.new}"],
            "neighbors": [str(self.folder / "features"), "query=0"],
            "pseudo_label": [str(self.run), f"input={self.folder / 'texts.txt'}", f"output={self.new}"],
            "extend_tokenizer": [str(self.run), f"input={self.folder / 'words.txt'}", f"output={self.new}"],
            "import_model": [published, str(self.new)], "export_model": [published, str(self.new)],
            "compare_logits": [published, published],
            "tokenizer_report": [str(self.output / "train_tokenizer" / "tokenizer"), str(self.output / "dedup")],
        }  # fmt: skip
        uid = f"{int(open_shards(self.set).read_block(0).fixed['uid'][0]):016x}" if name == "where_is" else ""
        more = {
            "explain_batch": ["--step", "1"], "where_is": ["--uid", uid],
            "diff_manifests": [str(self.set.parents[1] / "heldout")],
            "merge_manifests": [str(self.set.parents[1] / "heldout"), *new, "--name", "all"],
            "export_webdataset": new, "repack_shards": [*new, "--container", "tar"],
            "inspect_shard": page, "shard_stats": page,
        }  # fmt: skip
        return own.get(name) or [str(self.set), *more.get(name, [])]

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
        if name == "train":
            done = run_ranks(1, train, words, limit, folder=self.folder)
            while " is in use, probably by another run" in done.errors[0]:  # the port was free a moment ago
                done = run_ranks(1, train, words, limit, folder=self.folder)
            return Answer(done.codes[0], done.outputs[0], done.errors[0])
        if name == "pipeline":
            return spoken(lambda: run_pipeline(words), limit)
        if name in STAGES:
            return spoken(lambda: run_stage(name, words), limit)
        # before the disk fills: a library warns where it can write nothing
        tool = command_module(name)
        return spoken(lambda: tool.main(words), limit)
