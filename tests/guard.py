"""Guard a large change: the main line on fixed input files, its stored files compared by hash, its
losses by value.

    python -m tests.guard FOLDER                    # compare with tests/data/guard/expected.json
    python -m tests.guard FOLDER --against COMMIT   # also the losses and scores of that commit, on this machine
    python -m tests.guard FOLDER --write            # store the hashes: bytes change on purpose

Files must be equal on every machine; losses depend on the processor, so that they are compared with
another commit. Everything runs by the commands of a user, in processes of their own. It takes about
4 minutes on two idle cores.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
INPUTS: Final = ROOT / "tests" / "data" / "guard"
EXPECTED: Final = INPUTS / "expected.json"
SMALL: Final = (
    *(
        "model.dim=32",
        "model.layers=1",
        "model.attention_heads=2",
        "model.ffn_dim=64",
        "schedule.warmup=2",
    ),
    *("evaluate.every=null", "log.tensorboard=false", "schedule.steps=6", "checkpoint.every=3"),
)
T5: Final = (
    *(
        "model.family=encoder_decoder",
        "model.heads={lm: 1.0}",
        "model.position={kind: t5}",
        "model.emb_norm=false",
    ),
    *("model.first_norm=true", "model.final_norm=true"),
)
TASKS: Final = {
    "classification": ("labels", "{name: labeled, task: guard, text: text, label: label}"),
    "tagging": ("ner", "{name: conll, task: guard, entities: [NAME]}"),
    "span": ("squad", "{name: squad, unanswerable: false}"),
}
"""head → recipe and reader of a task set"""


class Guard:
    """Runs the commands of one tree of the project in one folder."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "PYTHONPATH": str(tree),
            "OMP_NUM_THREADS": "1",
            "DS_ACCELERATOR": "cpu",
        }

        self.command = [sys.executable, "-m", "clozeline"]
        folder.mkdir(parents=True)

    def run(self, *words: str, ranks: int = 1) -> str:
        """Run a command to its end; return what it printed."""
        launcher = [str(Path(sys.executable).with_name("deepspeed")), "--num_accelerators", "2"]
        main = str(Path(self.environment["PYTHONPATH"], "train", "main.py"))
        command = [*self.command, *words] if ranks == 1 else [*launcher, main, *words[1:]]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(
                f"{' '.join(command)} ended with "
                f"{done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )

        return done.stdout

    # -- the pipeline
    # ----------------------------------------------------------------------------------------------

    def shards(self, output: str) -> list[str]:
        """Return the words of the pipeline: the demo's recipe over a WARC, a JSONL and a damaged
        file, by two workers."""
        for file in INPUTS.glob("*.*z*"):
            shutil.copyfile(file, self.folder / file.name)
        shutil.copyfile(INPUTS / "texts.jsonl", self.folder / "texts.jsonl")
        inputs = "input=[pages.warc.gz, texts.jsonl, damaged.warc.gz]"
        small = ("plan.unit_bytes=40000", "plan.shard_bytes=40000", "train_tokenizer.size=600")
        return [
            "pipeline",
            "--config",
            "recipe:demo",
            inputs,
            f"output={output}",
            *small,
            "executor.workers=2",
        ]

    def kill(self, output: str, when: str) -> None:
        """Start the pipeline and kill its process group as soon as a folder exists."""
        words = [*self.command, *self.shards(output)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
            stdout=quiet,
            stderr=quiet,
        )
        while process.poll() is None and not (self.folder / output / when).exists():
            time.sleep(0.01)
        if process.poll() is not None:
            sys.exit(f"the pipeline ended before {when} existed: nothing was killed")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    # -- training
    # ----------------------------------------------------------------------------------------------

    def train(
        self, name: str, shards: str, *more: str, ranks: int = 1, steps: int = 6
    ) -> list[float]:
        """Train for a few steps, or go on; return the losses of all steps so far."""
        words = (
            "train",
            "--config",
            "recipe:demo",
            f"data.shards={shards}",
            f"output={name}",
            f"steps={steps}",
        )

        self.run(*words, *SMALL, *more, ranks=ranks)
        return [
            record["loss"]
            for record in read_lines(self.folder / name / "metrics.jsonl")
            if "loss" in record
        ]

    def fine_tune(self, head: str, recipe: str, reader: str) -> str:
        """Make a small task set, fine-tune the masked LM on it for four steps, and return its
        scores."""
        files = write_task(self.folder / "labeled" / head, head)
        words = (
            f"input={files}",
            f"output=sets/{head}",
            "tokenizer.path=masked",
            f"tasks.reader={reader}",
        )

        self.run("pipeline", "--config", f"recipe:tasks/{recipe}", *words)
        (train,) = (self.folder / "sets" / head / "tasks").glob("*/train")
        of_run = ("model.init_from=masked", f"data.shards={train}", f"output=tasks/{head}")
        small = (
            "steps=4",
            "schedule.warmup=1",
            "log.tensorboard=false",
            "evaluate.every=null",
            "checkpoint.every=4",
        )

        small += ("checkpoint.keep_best=false",)  # no evaluation compares them
        self.run("train", "--config", f"recipe:tasks/{recipe}", *of_run, *small)
        return self.run("evaluate", f"tasks/{head}")


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_task(folder: Path, head: str) -> Path:
    """Write train and dev files of a task that follows from the texts by a rule.

    Return their folder.
    """
    texts = [
        row["text"]
        for row in map(parse, (INPUTS / "texts.jsonl").read_text().splitlines())
        if "text" in row
    ]

    sentences = [part.split() for text in texts for part in re.split(r"(?<=\.)\s", text)]
    sentences = [words for words in sentences if 5 <= len(words) <= 20]
    folder.mkdir(parents=True)

    for split, chosen in (("train", sentences[:96]), ("dev", sentences[96:128])):
        if head == "classification":
            rows = [
                f"{' '.join(words)}\t{'long' if len(words) > 10 else 'short'}" for words in chosen
            ]
            (folder / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]))
        elif head == "tagging":
            tagged = [
                "\n".join(f"{word} {'B-NAME' if word[0].isupper() else 'O'}" for word in row)
                for row in chosen
            ]
            (folder / f"{split}.txt").write_text("\n\n".join(tagged))
        else:
            paragraphs = [
                {
                    "context": " ".join(row),
                    "qas": [
                        {
                            "id": str(number),
                            "question": f"What follows {row[0]}?",
                            "answers": [
                                {
                                    "text": row[1],
                                    "answer_start": len(row[0]) + 1,
                                }
                            ],
                        }
                    ],
                }
                for number, row in enumerate(chosen)
            ]
            content = {"version": "1.1", "data": [{"title": "guard", "paragraphs": paragraphs}]}
            (folder / f"{split}-v1.1.json").write_text(json.dumps(content))

    return folder


def parse(line: str) -> dict[str, Any]:
    """Return a row, empty if it cannot be read."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def hash_files(output: Path) -> dict[str, Any]:
    """Return the hashes of all Arrow, npy and tar files of a pipeline, and the counts of its
    manifests."""
    files = sorted(path for path in output.rglob("*") if path.suffix in {".arrow", ".npy", ".tar"})
    hashes = {
        str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in files
    }
    manifests = {
        str(path.relative_to(output)): json.loads(path.read_bytes())
        for path in output.rglob("manifest.json")
    }
    counts = {name: manifest.get("counts") for name, manifest in sorted(manifests.items())}
    reports = {
        path.parent.name: json.loads(path.read_bytes())["counts"]
        for path in output.glob("*/report.json")
    }
    kept = {
        stage: {key: value for key, value in counts.items() if is_count(value)}
        for stage, counts in reports.items()
    }
    return {"files": hashes, "manifests": counts, "reports": dict(sorted(kept.items()))}


def is_count(value: Any) -> bool:
    """Return whether a figure of a report is a count, or counts by reason."""
    return isinstance(value, int) or (
        isinstance(value, Mapping) and all(map(is_count, value.values()))
    )


def train_all(guard: Guard) -> dict[str, Any]:
    """Return losses of three objectives on one and two ranks, scores of tasks, and the distance of
    an export."""
    sets = {
        name: f"data/corrupt/{name}/train/manifest.json"
        for name in ("masked_lm", "span_corruption", "causal_lm")
    }
    mixture = (
        f"[{{path: {sets['masked_lm']}}}, {{path: data/corrupt/masked_lm-20/train/manifest.json}}]"
    )
    figures: dict[str, Any] = {}

    for ranks in (1, 2):
        figures[f"masked LM, {ranks} ranks"] = guard.train(
            f"masked{ranks}", sets["masked_lm"], ranks=ranks
        )
        figures[f"T5, {ranks} ranks"] = guard.train(
            f"t5{ranks}", sets["span_corruption"], *T5, ranks=ranks
        )
        figures[f"mixture, {ranks} ranks"] = guard.train(f"mixture{ranks}", mixture, ranks=ranks)

    (guard.folder / "masked").symlink_to("masked1")
    # stopped after three steps and resumed, it must repeat every loss
    guard.train("resumed", sets["masked_lm"], steps=3)
    if guard.train("resumed", sets["masked_lm"]) != figures["masked LM, 1 ranks"]:
        sys.exit("a resumed training has other losses than one that was never stopped")
    for head, (recipe, reader) in TASKS.items():
        figures[f"scores of {head}"] = guard.fine_tune(head, recipe, reader)
    guard.run("export-model", "masked", "exported")
    figures["export"] = guard.run("compare-logits", "masked", "exported", "--theirs")
    return figures


def differences(expected: Any, actual: Any, name: str = "") -> Iterator[str]:
    """Yield what differs in nested figures."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in sorted({*expected, *actual}):
            yield from differences(expected.get(key), actual.get(key), f"{name}/{key}")
    elif expected != actual:
        yield f"{name.removeprefix('/')}: expected {expected}, got {actual}"


def main() -> int:
    """Run the guard and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new folder for all that the guard makes")
    parser.add_argument(
        "--write", action="store_true", help="store the hashes of the files as the expected ones"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare losses and scores with this commit's, too"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    # the pipeline, once in one go, once killed twice and restarted
    guard = Guard(ROOT, folder / "here")
    guard.run(*guard.shards("data"))
    files = hash_files(guard.folder / "data")
    for stage in ("clean", "group"):
        guard.kill("killed", stage)
    guard.run(*guard.shards("killed"))
    found = [
        f"killed and restarted: {line}"
        for line in differences(files, hash_files(guard.folder / "killed"))
    ]
    if arguments.write:
        EXPECTED.write_text(json.dumps(files, indent=1) + "\n")
    found += differences(json.loads(EXPECTED.read_text()), json.loads(json.dumps(files)))
    # trainings on these shards, by this tree and by another commit
    figures = train_all(guard)

    if arguments.against:
        tree = folder / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), arguments.against],
            cwd=ROOT,
            check=True,
        )
        for library in (ROOT / "clozeline" / "native").glob("*.so"):
            shutil.copy(library, tree / "clozeline" / "native")
        other = Guard(tree, folder / "there")
        other.run(*other.shards("data"))
        found += [
            f"against {arguments.against}: {line}"
            for line in differences(train_all(other), figures)
        ]
        subprocess.run(
            [
                "git",
                "worktree",
                "remove",
                "--force",
                str(tree),
            ],
            cwd=ROOT,
            check=True,
        )

    (folder / "figures.json").write_text(json.dumps(figures, indent=1))
    sys.stdout.write(
        "\n".join([*found, f"{len(files['files'])} files compared, {len(found)} differences", ""])
    )
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
