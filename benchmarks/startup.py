"""CPU time from typing a command to its answer: help, a mistake, and a complete pipeline.

    python -m benchmarks.startup [--repeats 5] [--baseline FOLDER] [--json FILE]

Each start is a process of its own, user and system time together, the fastest of several after one that compiles the
modules. With `--baseline`, the checkout of another version in that folder takes turns. The modules that each start
imports are counted, too.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import ROOT, Claim, finish, parser, system_load, take_turns

from benchmarks.filters import natural_texts

_RECIPE = """
corpus: startup
heldout: {fraction: 0.1}
clean: {language: {name: py3langid, keep: [en]}, filters: []}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 700}
encode: {}
group: {}
corrupt: [{name: masked_lm, max_length: 64}, {name: causal_lm, max_length: 64}]
"""
_START = "import sys, clozeline.__main__ as command; sys.exit(getattr(command, 'start', command.main)())"


def children_seconds() -> float:
    """Return the CPU seconds of all processes that have ended, user and system time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start(words: list[str], code: int, checkout: Path, *flags: str) -> str:
    """Start the command of a checkout, and return what it says; RuntimeError if it ends with another exit code."""
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, *flags, "-c", _START, *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(words)}: expected exit code {code}, got {done.returncode}: {done.stderr}")
    return done.stderr


def modules(words: list[str], code: int) -> int:
    """Return the number of modules that a command imports, those of the interpreter's own start included."""
    return start(words, code, ROOT, "-X", "importtime").count("import time:") - 1  # a line is the head of the table


def main() -> int:
    """Measure each start and print the table."""
    options = parser(__doc__, repeats=5, baseline=(Path, "checkout of another version")).parse_args()
    checkouts = {"ours": ROOT} | ({} if options.baseline is None else {"baseline": options.baseline.resolve()})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "recipe.yaml").write_text(_RECIPE, encoding="utf-8")
        lines = [json.dumps({"text": text}) for text in natural_texts()[:200]]
        (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
        recipe = ["--config", f"{folder}/recipe.yaml", f"input={folder}/texts.jsonl", "output={output}"]
        cases = {
            "clozeline --help": (["--help"], 0, 0.3),
            "clozeline pipeline --help": (["pipeline", "--help"], 0, 0.3),
            "clozeline pipeline, a wrong key": (["pipeline", *recipe, "inptu=x"], 64, 0.5),
            "clozeline pipeline, complete": (["pipeline", *recipe], 0, 1.0),
            "clozeline train, no such file": (["train", "--config", f"{folder}/train.yaml"], 64, 0.3),
            "clozeline train, a wrong key": (["train", "--config", "recipe:demo", "stepz=3"], 64, 0.5),
            "clozeline train --help": (["train", "--help"], 0, 1.0),
            "clozeline evaluate --help": (["evaluate", "--help"], 0, 1.0),
            "clozeline finetune --help": (["finetune", "--help"], 0, 1.0),
            "clozeline import-model --help": (["import-model", "--help"], 0, 0.5),
        }
        claims, counts = [], []
        for name, (words, code, limit) in cases.items():
            works = {
                which: partial(start, [word.format(output=folder / which) for word in words], code, checkout)
                for which, checkout in checkouts.items()
            }
            seconds = {which: min(of) for which, of in take_turns(works, options.repeats, children_seconds).items()}
            claims.append(Claim(name, "CPU s", seconds["ours"], limit))
            if "baseline" in seconds:
                claims.append(Claim(name, "CPU s", seconds["ours"], seconds["baseline"], "baseline"))
            counts.append(f"{name}: {modules([word.format(output=folder / 'ours') for word in words], code)} modules")
    print(system_load(), *counts, sep="\n")
    return finish(claims, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
