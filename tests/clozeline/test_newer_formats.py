"""A file of a newer version, of every kind: each command that reads it refuses it by name, and changes nothing.

Which commands read a kind is observed, so a new command is covered by itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clozeline.files import file_hash
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from clozeline.sealed_json import seal
from clozeline.train.checkpoint.format import FORMAT_WHOLE
from tests.clozeline.bench import STAGES, Answer, Bench, spoken
from tests.clozeline.observed import reading
from tests.clozeline.test_commands_on_faults import WITH_FILES, WITHOUT_INPUT, tree
from tests.commands import command_module
from tests.matrices import mark_slow_but
from tests.pipeline.task_files import write_vocabulary

KINDS = {
    "plan": "out/clean/plan.json",
    "record": "out/*/records/*.json",
    "report of a stage": "out/*/report.json",
    "report of a run": "out/report.json",
    "factors": "out/balance/factors.json",
    "tokens": "out/encode/manifest.json",
    "samples": "out/group/*/*/manifest.json",
    "examples": "out/corrupt/*/*/manifest.json",
    "quarantine": "out/corrupt/*/*/quarantine.json",
    "task": "task/out/tasks/*/*/manifest.json",
    "vocabulary": "out/train_tokenizer/tokenizer/vocabulary.json",
    "published tokenizer": "task/out/tokenizer/tokenizer/published.json",
    "imported model": "imported/model.json",
    "vectors": "features/features.json",
    "checkpoint": "run/checkpoints/*/checkpoint.json",
    "sets of a run": "run/sets.json",
    "status": "run/status.json",
    "metrics": "run/metrics.jsonl",
    "events": "run/events.jsonl",
}
"""Every kind of JSON file that Clozeline publishes and reads again, below the folder of the bench."""
AGAIN = ", again"
"""Stages that have lost their records, so that they are done again."""
FIRST = {
    "plan": ("clean", "out/clean/plan.json"),
    "record": ("corrupt", "out/encode/records/manifest-000000.json"),
    "report of a stage": ("dedup", "out/dedup/report.json"),
    "report of a run": ("pipeline", "out/report.json"),
    "factors": (f"group{AGAIN}", "out/balance/factors.json"),
    "tokens": (f"group{AGAIN}", "out/encode/manifest.json"),
    "samples": (f"corrupt{AGAIN}", "out/group/packed-62-sep/train/manifest.json"),
    "examples": ("train, dry", "out/corrupt/masked_lm/train/manifest.json"),
    "quarantine": ("validate_shards", "out/corrupt/masked_lm/train/quarantine.json"),
    "task": ("validate a task", "task/out/tasks/sst2/train/manifest.json"),
    "vocabulary": ("inspect_shard", "out/train_tokenizer/tokenizer/vocabulary.json"),
    "published tokenizer": ("report a published tokenizer", "task/out/tokenizer/tokenizer/published.json"),
    "imported model": ("export an import", "imported/model.json"),
    "vectors": ("neighbors", "features/features.json"),
    "checkpoint": ("export a run", "run/checkpoints/step-00000002/checkpoint.json"),
    "sets of a run": ("export a run", "run/sets.json"),
    "status": ("train, dry", "run/status.json"),
    "events": ("explain a batch of a run", "run/events.jsonl"),
}
"""A command that reads the kind, and a file of it, for `make test`."""
FOREIGN = ("crawl/", "published/", "new/")
ONLY_TRAINING = ("metrics",)
"""Kinds that only a start of the trainer reads, in a process of its own."""
Command = Callable[[Bench], Answer]


def tool(name: str, *words: Any) -> Answer:
    return spoken(lambda: command_module(name).main([str(word) for word in words]), None)


def dry(bench: Bench, *words: str) -> Answer:
    """A start of the trainer without its last part."""
    from clozeline.train.command import main

    return spoken(lambda: main([*bench.words("train"), "--dry-run", *words]), None)


def begin(bench: Bench) -> Answer:
    """A start of the trainer with the model of an import."""
    plain = yaml.safe_load((bench.folder / "train.yaml").read_text(encoding="utf-8"))
    plain["model"] = {"init_from": str(bench.folder / "imported"), "heads": {"masked_lm": 1.0}}
    path = bench.new / "begin.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return dry(bench, "--config", str(path), f"output={bench.new / 'run'}")


def stage(bench: Bench, name: str) -> Answer:
    return spoken(lambda: run_stage(name, [*bench.recipe, f"output={bench.output}", "executor.workers=1"]), None)


def task(bench: Bench) -> Answer:
    folder = bench.folder / "task"
    given = [f"input={folder / 'files'}", f"tokenizer.path={write_vocabulary(folder / 'words')}"]
    recipe = ["--config", str(folder / "recipe.yaml"), *given, f"output={folder / 'out'}"]
    return spoken(lambda: run_stage("tasks", [*recipe, "executor.workers=1"]), None)


OWN = ("train", "where_is")
"""Commands whose words are not those of the bench."""
COMMANDS: dict[str, Command] = {
    **{name: lambda bench, name=name: bench.ask(name) for name in {*WITH_FILES} - {*WITHOUT_INPUT, *OWN, *STAGES}},
    **{name: lambda bench, name=name: stage(bench, name) for name in (*STAGES, "balance")},
    **{f"{name}{AGAIN}": lambda bench, name=name: stage(bench, name) for name in (*STAGES, "balance")},
    "where_is": lambda bench: tool("where_is", bench.set, "--uid", "0" * 16),
    "train, dry": dry,
    "tasks": task,
    f"tasks{AGAIN}": task,
    "train on a task, dry": lambda bench: dry(bench, f"data.shards={bench.folder}/task/out/tasks/sst2/train"),
    "begin with an import": begin,
    "export an import": lambda bench: tool("export_model", bench.folder / "imported", bench.new),
    "export a run": lambda bench: tool("export_model", bench.run, bench.new),
    "explain a batch of a run": lambda bench: tool("explain_batch", "--run", bench.run, "--step", "1"),
    "validate a task": lambda bench: tool("validate_shards", bench.folder / "task/out/tasks/sst2/train"),
    "report a published tokenizer": lambda bench: tool(
        "tokenizer_report", bench.folder / "task/out/tokenizer/tokenizer", bench.output / "dedup"
    ),
}


def _own(bench: Bench, name: str) -> Path:
    stage = name.removesuffix(AGAIN)
    return (bench.folder / "task" / "out" if stage == "tasks" else bench.output) / stage


def copied(whole: Bench, folder: Path, name: str) -> Bench:
    """Return a copy for a command."""
    bench = whole.copy(folder)
    if name.endswith(AGAIN):
        shutil.rmtree(_own(bench, name) / "records")
    return bench


@pytest.fixture(scope="module")
def readers(whole: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The files that each command reads, relative to the bench, in their order."""
    found = {}
    for name in sorted(COMMANDS):
        bench = copied(whole, tmp_path_factory.mktemp("readers") / "copy", name)
        with reading() as opened:
            COMMANDS[name](bench)
        inside = [path for path in opened if path.is_relative_to(bench.folder)]
        found[name] = [str(path.relative_to(bench.folder)) for path in dict.fromkeys(inside)]
    return found


def write_newer(path: Path) -> tuple[int, int]:
    """Write a file as a later version would, right in every hash; return its new format, and the latest known one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        later = {"format": 2, **json.loads(text.splitlines()[-1])}
        del later["checksum"]
        path.write_text(f"{text}{json.dumps(seal(later))}\n", encoding="utf-8")
        return 2, 1
    plain: dict[str, Any] = json.loads(text)
    checksum = plain.pop("checksum", None)
    known = FORMAT_WHOLE if path.name == "checkpoint.json" else plain.get("format", 1)
    plain["format"] = known + 1
    if path.name in ("manifest.json", "checkpoint.json"):
        plain["checksum"] = canonical_sha256(plain)
    elif checksum is not None:
        plain = seal(plain)
    text = json.dumps(plain, separators=(",", ":")) + "\n" if path.name == "checkpoint.json" else manifest_text(plain)
    path.write_text(text, encoding="utf-8")
    record_again(path)
    return known + 1, known


def record_again(path: Path) -> None:
    """Put the new size and hash into the records of the units that wrote the file, and the size into the reports."""
    for folder in path.parents:
        for record in (folder / "records").glob("*.json"):
            relative, listed = str(path.relative_to(folder)), json.loads(record.read_text())["outputs"]
            if relative in listed:
                new = {"bytes": path.stat().st_size, "xxh3_128": file_hash(path)}
                change(record, {**listed, relative: new}, "outputs")
                size = json.loads((folder / "report.json").read_text())["bytes"]
                size += new["bytes"] - listed[relative]["bytes"]
                change(folder / "report.json", size, "bytes")
                change(folder.parent / "report.json", size, "stages", folder.name, "bytes")


def change(path: Path, value: object, *keys: str) -> None:
    """Change one value of a sealed file."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    del plain["checksum"]
    inner = plain
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(manifest_text(seal(plain)), encoding="utf-8")


def refused(command: Command, bench: Bench, path: Path) -> list[str]:
    """Return what is wrong with the answer of a command that reads a file of a newer version.

    A configuration names the folder of its output, here that of the copy.
    """
    found, known = write_newer(path)
    before = tree(bench.folder)
    answer = command(bench)
    after = tree(bench.folder)
    said = f"{path}: format {found} of a newer version, this version reads format {known}: install a newer Clozeline"
    wrong = [] if answer.code == 64 and said in answer.error else [f"{answer.code}: {answer.error[-400:]}"]
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    kept = [name for name in changed if not _made_again(name, path.relative_to(bench.folder))]
    if "which is not complete" in answer.error and answer.code == 64:
        wrong = []
    return wrong + [name for name in kept if not name.endswith("/config.yaml") and not name.startswith("new/")]


def _made_again(name: str, newer: Path) -> bool:
    """Return whether a file is one of a stage after that of the newer file, whose units follow from other bytes."""
    places = list(all_stages())
    stages = [next((part for part in Path(one).parts if part in places), places[-1]) for one in (name, newer)]
    return places.index(stages[0]) > places.index(stages[1])


@pytest.mark.parametrize("kind", FIRST)
def test_a_command_that_reads_it_refuses_it(whole: Bench, tmp_path: Path, kind: str) -> None:
    name, path = FIRST[kind]
    bench = copied(whole, tmp_path / "copy", name)
    assert refused(COMMANDS[name], bench, bench.folder / path) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ONLY_TRAINING])
def test_every_command_that_reads_it_refuses_it(
    whole: Bench, readers: dict[str, list[str]], tmp_path: Path, kind: str
) -> None:
    paths = {str(path.relative_to(whole.folder)) for path in whole.folder.glob(KINDS[kind])}
    assert paths, "the bench has none"
    wrong: list[str] = []
    commands: list[str] = []
    for name, opened in readers.items():
        own = str(_own(whole, name).relative_to(whole.folder)) + "/" if name.endswith(AGAIN) else "none"
        first = next((path for path in opened if path in paths and not path.startswith(own)), None)
        if first is not None:
            commands.append(name)
            bench = copied(whole, tmp_path / str(len(commands)), name)
            if problems := refused(COMMANDS[name], bench, bench.folder / first):
                wrong += [f"{name}: {first}: {problem}" for problem in problems]
    print(kind, "is read by", len(commands), "commands:", "; ".join(commands))
    assert commands, "no command reads it"
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", mark_slow_but(["checkpoint"], ["checkpoint", "status", "metrics"]))
def test_a_start_of_the_trainer_refuses_it(whole: Bench, tmp_path: Path, kind: str) -> None:
    bench = whole.copy(tmp_path / "copy")
    path = sorted(bench.folder.glob(KINDS[kind]))[-1]
    assert refused(lambda bench: bench.ask("train"), bench, path) == []


@pytest.mark.slow
def test_every_kind_that_is_read_is_listed(readers: dict[str, list[str]]) -> None:
    """All JSON files of ours that a command reads; others are inputs, or in forms of other libraries."""
    names = {"records/*.json" if "records" in glob else Path(glob).name for glob in KINDS.values()}
    found = {path for opened in readers.values() for path in opened if Path(path).suffix in (".json", ".jsonl")}
    found = {path for path in found if "/tmp/" not in path}
    ours = {path for path in found if not path.startswith(FOREIGN) and Path(path).name != "tokenizer.json"}
    assert {path for path in ours if not any(Path(path).match(name) for name in names)} == set()
