"""Write docs/claims.md: a verdict on each claim of claims.yaml, computed from what was measured.

`python -m docs.generate.claims OUTPUT 'COMMAND'` adds what a study measured in OUTPUT to the
results.json of the study: COMMAND is the command that ran, with flops= or steps=.
"""

import datetime as dt
import json
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import yaml

from clozeline.extensions.studies.study_plan import load_study
from clozeline.extensions.studies.verdict import judge
from clozeline.extensions.tasks.finetuning_scores import read_scored

_ROOT: Final = Path(__file__).resolve().parents[2]
_STUDIES: Final = _ROOT / "configs" / "studies"
_HIGHER_IS_BETTER: Final = ("accuracy", "points", "times")
"""Starts of the units of measures that are not losses."""
_TABLE: Final = ("| claim | equal | gain | verdict | study |", "|---|---|---|---|---|")
_HEAD: Final = """# Claims of lectures, with a verdict

`make docs` computes the verdicts from what we measured:

- **holds**, **does not hold**: the gain is more than twice its standard error, and the better one
  had no more of what the claim holds equal
- **undecided**: all else. One seed decides nothing, and neither does a loss that only one of the
  two was trained on.
- **cannot be shown at this size**: why we did not try

After ± stands the standard error of the difference between the means over seeds. With three runs
on each side, two of the same kind differ by twice that in one of nine comparisons, and no verdict
is corrected for their number: believe those that are many errors away. Seeds are those of the
pretrained body; where the row says *one body*, those of its fine-tuning.

Our models have at most a few million [parameters](glossary.md#models), and read at most 50 million
tokens. A claim that does not hold here may hold at a hundred times the size. All studies but *adam*
train with Muon, because with AdamW alone such short runs learn little more than how frequent tokens
are; the papers have Adam. No batch or size was tuned on a claim. Rates were tuned for the rows on
adapters and prefixes, four or five for each arm; the templates of `new` and what they are
compared with were tuned each on its own. Names of files in the commands are yours. A study takes at
most 45 minutes of two cores, by the FLOPs per second that we measured."""


def claims_page() -> str:
    """Return the page: a table for each group of claims, and the commands."""
    content = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    measured = read_measured(content["others"])
    parts = [_HEAD]
    for group, claims in content["claims"].items():
        names = dict.fromkeys(claim["study"] for claim in claims if "study" in claim)
        runs = {name: measured[name] for name in names}
        dates = [str(run["measured"]) for run in runs.values() if run["measured"]]
        commands = [_command_line(run) for run in runs.values() if "command" in run]
        parts += [
            f"## {group}\n\nMeasured {min(dates)} to {max(dates)}:",
            "\n".join([*_TABLE, *(_row(claim, measured) for claim in claims)]),
            "\n".join(["```sh", *commands, "```"]),
        ]
    return "\n\n".join(parts) + "\n"


def read_measured(others: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what was measured, by the last part of the study's output, then other commands."""
    measured = {}
    for path in sorted(_STUDIES.glob("*/results.json")):
        for run in json.loads(path.read_text(encoding="utf-8")):
            page = run.get("page", f"../extensions/studies/README.md#{path.parent.name}")
            measured[Path(_options(run["command"])["output"]).name] = run | {"page": page}
    return measured | others


def decide(claim: Mapping[str, Any], run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the gain of a claim as text, and its verdict.

    Raises:
        ValueError: an arm has no entry for the measure, or for what the claim holds equal.
    """
    arms = [_arm(claim, run, name) for name in claim["arms"]]
    measure = claim["measure"]
    (mean, deviation, seeds), (other, other_deviation, other_seeds) = (arm[measure] for arm in arms)
    unit = claim.get("unit", "nats")
    gain = (mean - other) * (1 if unit.startswith(_HIGHER_IS_BETTER) else -1) or 0.0
    error = sqrt(deviation**2 / seeds + other_deviation**2 / other_seeds)
    spent = [arm.get(claim["equal"], 1) for arm in arms]
    enough = 2 if claim.get("exact") else min(seeds, other_seeds)
    verdict = judge(gain, error, enough, spent, claim["equal"])
    own = _own_loss(claim, run)
    if own is not None and (gain > 0) == (own == "first"):
        verdict = f"undecided: own loss of the {own} arm"
    if "undecided" in claim:
        verdict = f"undecided: {claim['undecided']}"
    digits = 1 if unit.startswith(("points", "perplexity", "times")) else 3
    text = f"{gain:+.{digits}f}" + (f" ± {error:.{digits}f}" if error else "") + f" {unit}"
    return text, verdict


def _arm(claim: Mapping[str, Any], run: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    arm: Mapping[str, Any] = run["variants"].get(name, {})
    needed = [claim["measure"], *([] if claim.get("equal_by_design") else [claim["equal"]])]
    if missing := [key for key in needed if key not in arm]:
        raise ValueError(
            f"claims.yaml: {claim['claim']} ({claim['study']}): the arm {name!r} was measured "
            f"without {missing[0]!r}; it has {', '.join(arm) or 'nothing'}. Measure it, or say "
            "equal_by_design: true"
        )
    return arm


def _own_loss(claim: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    """Return which arm alone was trained on the rows that measure a claim; None: both or none."""
    folder = _folder_of(run)
    if folder is None:
        return None
    variants = load_study(folder)[1]
    arms = [variants[name.partition(" from ")[0]] for name in claim["arms"]]
    rows = [arm.measures.get(claim["measure"]) for arm in arms]
    owns = [
        any(measured in phase.sets for phase in arm.phases)
        for measured, arm in zip(rows, arms, strict=True)
    ]
    return None if owns[0] == owns[1] else "first" if owns[0] else "second"


def minutes_of(run: Mapping[str, Any]) -> float | None:
    """Return the minutes of two cores that a study takes; None without a measured rate."""
    if "rate" not in run:
        return None
    folder = _folder_of(run)
    assert folder is not None
    chosen = yaml.safe_load(_options(run["command"]).get("variants", "[]"))
    variants = chosen or load_study(folder)[1]
    return float(len(variants) * run["seeds"] * run["flops"] / run["rate"] / 60)


def _folder_of(run: Mapping[str, Any]) -> Path | None:
    """Return the folder of the study that a run is of; None for a run of another command."""
    words = shlex.split(run.get("command", ""))
    return _ROOT / words[2] if words[1:2] == ["study"] else None


def _row(claim: Mapping[str, Any], measured: Mapping[str, Mapping[str, Any]]) -> str:
    said = claim["claim"] + (f" ({claim['published']})" if "published" in claim else "")
    if "cannot" in claim:
        return f"| {said} | | | cannot be shown at this size: {claim['cannot']} | |"
    run = measured[claim["study"]]
    gain, verdict = decide(claim, run)
    gain = "; ".join(filter(None, (gain, claim.get("note"))))
    link = f"[{claim['study']}]({run['page']})"
    cells = (said, claim["equal"], gain, verdict, link)
    return f"| {' | '.join(cells)} |"


def _command_line(run: Mapping[str, Any]) -> str:
    minutes = minutes_of(run)
    return run["command"] + (f"  # {minutes:.0f} minutes" if minutes else "")


def collect(output: Path, command: str) -> dict[str, Any]:
    """Return what a study measured in a folder, as results.json has it.

    A value is its mean, its standard deviation over seeds, and their number.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((output / "scores").glob("*.json")):
        figures = json.loads(path.read_text(encoding="utf-8"))
        of_variant = values[path.stem.rpartition("-")[0]]
        spent = {"FLOPs": figures["flops"], "tokens": figures["tokens"]}
        for text in output.glob(f"scores/texts/*/{path.name}"):
            spent[text.parent.name] = json.loads(text.read_bytes())["bits"]
        for key, value in (spent | figures["losses"]).items():
            of_variant[key].append(value)
    for folder in sorted((output / "finetuned").glob("*")):
        label, name, begin, _ = folder.name.split("-")
        (run,) = read_scored(folder)
        of_begin = values[name if begin == "all" else f"{name} from {begin}"]
        of_begin[label].append(next(iter(run.metrics.values())))
    variants: dict[str, dict[str, Any]] = {
        name: {
            key: round(fmean(each)) if key in ("FLOPs", "tokens") else list(_summary(each))
            for key, each in of_variant.items()
        }
        for name, of_variant in values.items()
    }
    flops = max(each.get("FLOPs", 0) for each in variants.values())
    seeds = len(next(iter(values.values()))["tokens"])
    return {
        "command": command,
        "measured": str(dt.date.today()),
        "flops": float(_options(command).get("flops", flops)),
        "seeds": seeds,
        "variants": variants,
    }


def _options(command: str) -> dict[str, str]:
    """Return the options KEY=VALUE of a command of a study."""
    return dict(word.split("=", 1) for word in shlex.split(command)[3:])


def _summary(values: list[float]) -> Iterator[float]:
    yield round(fmean(values), 4)
    yield round(stdev(values), 4) if len(values) > 1 else 0
    yield len(values)


def main() -> int:
    """Put what a study measured into its results.json."""
    output, command = sys.argv[1:]
    path = _ROOT / shlex.split(command)[2] / "results.json"
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_command = {run["command"]: run for run in runs}
    # what is measured again keeps its page and its rate
    by_command[command] = by_command.get(command, {}) | collect(Path(output), command)
    path.write_text(json.dumps([*by_command.values()], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
