"""Runs of the trainer, and the folders with models made of them, for commands that read such folders."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from tests.clozeline.bench import Answer, spoken, train
from tests.commands import command_module
from tests.distributed import run_ranks
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe
from tests.train.masked_set import write_config

_ENCODER = RECIPE[: RECIPE.index("  - {name: span_corruption")].replace("variants: 2", "variants: 1")
_RECIPE = f"{_ENCODER}  - {{name: causal_lm, max_length: 64}}\n"
_NUMBERS = re.compile(r"[\d,.]+ (tokens/s|seconds?|bytes)|at least [\d,.]+ s ")
_NOT_READ = (".lock", "report.html")


class RunBench:
    """An encoder's run, a decoder's, the export of the first for transformers, its import, and an adapter beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.new = folder / "new"

    @staticmethod
    def made(folder: Path) -> RunBench:
        """Run the pipeline, train two models for two steps, export and import."""
        bench = RunBench(folder)
        words = ["--config", str(write_recipe(folder, _RECIPE)), f"input={write_corpus(folder / 'crawl', 25)}"]
        assert run_pipeline([*words, f"output={folder / 'out'}", "executor.workers=1"]) == 0
        kinds = {"encoder": ("masked_lm", "masked_lm"), "decoder": ("lm", "causal_lm")}
        for family, (head, label) in kinds.items():
            shards = folder / "out" / "corrupt" / label / "train" / "manifest.json"
            keys: dict[str, Any] = {"family": family, "heads": {head: 1.0}, "position": {"maximum": 64}}
            keys |= {"type_vocab_size": 2} if family == "encoder" else {}
            more = {f"model__{key}": value for key, value in keys.items()}
            path = write_config(
                folder / f"{family}.yaml", shards, folder / family, steps=2, checkpoint__every=1, **more
            )
            done = run_ranks(1, train, ["--config", str(path)], None, folder=folder)
            assert done.codes == [0], done.errors
        plain = yaml.safe_load((folder / "encoder.yaml").read_text(encoding="utf-8"))
        plain["model"] = {"heads": {"masked_lm": 1.0}}
        (folder / "begin.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
        for tool, source, target in (("export", "encoder", "exported"), ("import", "exported", "imported")):
            made = bench._tool(f"{tool}_model", str(folder / source), str(folder / target))
            assert made.code == 0, made
        bench.adapt(plain)
        return bench

    def adapt(self, config: dict[str, Any]) -> None:
        """Train an adapter beside the exported model."""
        more = {"init_from": str(self.folder / "exported"), "adapter": {"name": "lora", "rank": 2}}
        config = {**config, "model": {**config["model"], **more}, "output": str(self.folder / "adapted")}
        path = self.folder / "adapted.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        done = run_ranks(1, train, ["--config", str(path)], None, folder=self.folder)
        assert done.codes == [0], done.errors

    def commands(self) -> dict[str, tuple[str, Callable[[], Answer]]]:
        """Return commands by name, each with the folder that it reads."""
        new, begin = str(self.new), ["--config", str(self.folder / "begin.yaml"), "--dry-run", f"output={self.new}"]
        encoder, decoder, exported, imported, adapted = (
            str(self.folder / name) for name in ("encoder", "decoder", "exported", "imported", "adapted")
        )
        texts = [f"{imported}/tokenizer", str(self.folder / "out" / "dedup")]
        return {
            "export a run": ("encoder", lambda: self._tool("export_model", encoder, new)),
            "export a step": ("encoder", lambda: self._tool("export_model", encoder, new, "--step", "2")),
            "fill a mask": ("encoder", lambda: self._tool("fill_mask", encoder, "--heldout", "1")),
            "explain a batch": ("encoder", lambda: self._tool("explain_batch", "--run", encoder, "--step", "1")),
            "resume, dry": ("encoder", self._resume),
            "begin with a run": ("encoder", lambda: self._train(*begin, f"model.init_from={encoder}")),
            "generate": ("decoder", lambda: self._tool("generate", decoder, "a text", "max_tokens=3")),
            "export an import": ("imported", lambda: self._tool("export_model", imported, new)),
            "export_adapter": ("adapted", lambda: self._tool("export_adapter", adapted, new)),
            "compare": ("imported", lambda: self._tool("compare_logits", imported, exported)),
            "begin with an import": ("imported", lambda: self._train(*begin, f"model.init_from={imported}")),
            "report a tokenizer": ("imported", lambda: self._tool("tokenizer_report", *texts)),
            "import": ("exported", lambda: self._tool("import_model", exported, new)),
        }  # fmt: skip

    def files(self, folder: str) -> list[Path]:
        """Return the files of a folder that commands read; of a run, its newest checkpoint."""
        found = sorted(path for path in (self.folder / folder).rglob("*") if path.is_file())
        return [path for path in found if path.name not in _NOT_READ and "step-00000001" not in path.parts]

    def ask(self, command: Callable[[], Answer]) -> tuple[Answer, object]:
        """Return the answer of a command, and by what it is compared: its exit code, its words, all that it wrote."""
        shutil.rmtree(self.new, ignore_errors=True)
        answer = command()
        written = sorted(path for path in self.new.rglob("*") if path.is_file())
        files = {str(path.relative_to(self.new)): path.read_bytes() for path in written}
        return answer, (answer.code, _NUMBERS.sub("", answer.out), files)

    def _resume(self) -> Answer:
        return self._train("--config", str(self.folder / "encoder.yaml"), "--dry-run")

    @staticmethod
    def _tool(name: str, *words: str) -> Answer:
        return spoken(lambda: command_module(name).main(words), None)

    @staticmethod
    def _train(*words: str) -> Answer:
        from clozeline.train.command import main

        return spoken(lambda: main(words), None)
