"""Train the entries of a race until they reach a held-out loss, and report the cost of each: `clozeline race RACE`.

RACE is a folder: race.yaml holds what is fixed, pipeline.yaml makes the sets from Python's own documentation, and every
other YAML file is an entry. The baseline runs all of its steps with every seed; the target is the held-out loss that
all of these runs reach. Then train/main.py trains the entries one after the other, each with every seed, until the
first evaluation at or below the target, on the judging half of the held-out set; tune an entry on the other half with
`--half tuning`. Times count steps only, without startup, evaluations and saves. A second table is the race by bytes:
each run as it is and with its weights as integers, and whether it stays within the target plus 0.05 nats. The same
command resumes after an interruption. `OUTPUT/race.txt` has the tables, race.json their figures, race.svg a chart of
the first, and race.html the curves of the first seed.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from warcio.archiveiterator import ArchiveIterator

from clozeline.configuration.config import config_digest, load_config
from clozeline.errors import ConfigurationError
from clozeline.files import publish_json, read_json
from clozeline.pipeline.shards import open_shards
from clozeline.report.html_page import grid, section
from clozeline.tools.command import Arguments, positive, run_tool, some_path
from clozeline.tools.experiments.multirun import race_rules
from clozeline.tools.experiments.multirun.demo_chain import write_pages
from clozeline.tools.experiments.multirun.heldout_halves import HALVES, split_heldout
from clozeline.tools.experiments.multirun.race_results import Result, record_line, result_of, standings, target_of
from clozeline.tools.experiments.multirun.race_sizes import size_standings, store_forms
from clozeline.tools.experiments.multirun.runner import ROOT, Training, collect_all, run_step, write_report
from clozeline.tools.experiments.multirun.runs_picture import Panels
from clozeline.train.logs.curves import RecordedRun, heldout_losses, last_heldout, points
from clozeline.train.logs.json_lines import read_lines

_DIGEST_DIGITS: Final = 8
"""Digits of the digest that separates the runs of an entry that was changed, or has another target."""


def _make_sets(race: race_rules.Race, folder: Path, output: Path) -> dict[str, str]:
    """Make the sets and the held-out halves, if needed; return the sets that differ from the records'."""
    pages = output / "pages"
    if not pages.exists():
        unfinished = pages.with_name("pages.partial")
        write_pages(warc := output / "pydoc.warc.gz")
        with warc.open("rb") as file:
            for record in ArchiveIterator(file):
                page = unfinished / urlsplit(record.rec_headers.get_header("WARC-Target-URI")).path[1:]
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_bytes(record.content_stream().read())
        unfinished.rename(pages)
    words = [f"input={pages}", f"output={output / 'sets'}"]
    run_step("clozeline", "pipeline", "--config", folder / "pipeline.yaml", *words, accelerator=None)
    sets = output / "sets"
    split_heldout(sets / race.heldout, sets / race_rules.half_path(""))
    return race_rules.find_changed_sets(race, sets)


def _trainings(
    options: argparse.Namespace, race: race_rules.Race, entry: race_rules.Entry, name: str, target: float | None
) -> dict[Path, Training]:
    """Return the validated training of each seed, by its own run directory."""
    output, trainings = options.output.resolve(), {}
    digest = config_digest([asdict(entry), race.every, options.half, target])[:_DIGEST_DIGITS]
    for seed in range(options.seeds or race.seeds):
        run = output / "runs" / f"{name}-{digest}-{seed}"
        trainings[run] = Training(
            run.with_suffix(".yaml"), {run.with_suffix(".json"): partial(publish_json, data={"done": True})},
            keys=race_rules.training_of(race, entry, name, output / "sets", run, seed, options.half, target),
            ranks=entry.ranks, accelerator="cpu", variables={"OMP_NUM_THREADS": str(entry.threads)},
            is_complete=lambda done: read_json(done) is not None,
        )  # fmt: skip
    return trainings


def _train(
    options: argparse.Namespace, race: race_rules.Race, entry: race_rules.Entry, name: str, target: float | None = None
) -> list[Path]:
    trainings = _trainings(options, race, entry, name, target)
    collect_all(trainings.values())
    return list(trainings)


def _curve(run: Path, name: str) -> RecordedRun:
    records = read_lines(run / "metrics.jsonl")
    seconds = accumulate(sum(record["step_ms"].values()) / 1e3 for record in records)
    return RecordedRun(name, [{**record, "seconds": passed} for record, passed in zip(records, seconds, strict=True)])


def _panels(target: float, results: Mapping[str, Sequence[Result]], first: Sequence[RecordedRun]) -> Panels:
    curves = {run.name: points(run, "seconds", "heldout", race_rules.HELDOUT, "loss") for run in first}
    unigram = float(last_heldout(first[0].records)[race_rules.HELDOUT]["unigram_entropy"])
    seconds = {name: [result.seconds for result in of_seeds if result.reached] for name, of_seeds in results.items()}
    reached = {name: of_seeds for name, of_seeds in seconds.items() if of_seeds}
    title = f"held-out loss, nats; dashed: the target {target:g}"
    return Panels(title, "seconds of steps", curves, target, unigram, ("seconds until the target", reached))


def _run_race(options: argparse.Namespace) -> None:
    folder, output = options.race.resolve(), options.output.resolve()
    # read the race, and check every training before the first one starts
    race, entries = race_rules.load_race(folder)
    if race.baseline in (path.stem for path in options.entry):
        raise ConfigurationError(f"--entry: {race.baseline} is always trained: omit it, or rename your file")
    chosen = {path.stem: load_config(race_rules.Entry, path) for path in options.entry} or entries
    entries = {race.baseline: entries[race.baseline]} | chosen
    for name, entry in entries.items():
        race_rules.training_of(race, entry, name, output / "sets", output / "runs" / name, 0, options.half, None)
    baseline = entries.pop(race.baseline)
    for training in _trainings(options, race, baseline, race.baseline, None).values():
        training.write_config()  # reports a full disk before the sets are made
    # make the sets, train the baseline, and let it set the target
    changed = _make_sets(race, folder, output)
    runs = {race.baseline: _train(options, race, baseline, race.baseline)}
    target = target_of(runs[race.baseline])
    runs |= {name: _train(options, race, entry, name, target) for name, entry in entries.items()}
    # results, table and charts
    results = {name: [result_of(run, target) for run in of_seeds] for name, of_seeds in runs.items()}
    describe = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]  # a + if files differ from the commit
    commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    when, command = (f"{datetime.now(UTC):%Y-%m-%d}", commit or "unknown"), ["clozeline", "race", *options.words]
    comparable = "the sets are those of the records" if not changed else (
        f"other sets than those that {race.made_with} made, compare within this table only: {', '.join(changed)}"
    )  # fmt: skip
    lines = [*standings(race, options.half, results), comparable] + [
        record_line(race, name, entry, results, when, shlex.join(command))
        for name, entry in {race.baseline: baseline, **entries}.items()
        if all(result.reached for result in results[name])
    ]
    half = open_shards(output / "sets" / race_rules.half_path(options.half))
    forms = {name: [store_forms(run, half, output / "sizes") for run in of_seeds] for name, of_seeds in runs.items()}
    lines += ["", *size_standings(target, forms)]
    figures = {name: [asdict(result) for result in seed_results] for name, seed_results in results.items()}
    sizes = {name: [{form: asdict(own) for form, own in of_seed.items()} for of_seed in forms[name]] for name in forms}
    facts = {"target": target, "half": options.half, "changed_sets": changed, "results": figures, "sizes": sizes}
    publish_json(output / "race.json", facts)
    curves = [_curve(first, name) for name, (first, *_) in runs.items()]
    page = [section("First seed", grid(*heldout_losses(curves, "seconds")))]
    write_report(output, "race", race.title, lines, [_panels(target, results, curves)], page)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("race", type=some_path, metavar="RACE", help="folder of a race: configs/race")
    parser.add_argument(
        "--output", type=some_path, required=True, metavar="DIR", help="folder of sets, runs and results"
    )
    entry = "an entry to train in addition to the baseline; may be repeated; default: all of the race"
    parser.add_argument("--entry", type=some_path, action="append", default=[], metavar="FILE", help=entry)
    parser.add_argument("--seeds", type=positive, help="trainings per entry; default: race.yaml's")
    half = "half of the held-out set to evaluate: tune an entry on one, and let the other judge it; default: "
    parser.add_argument("--half", choices=HALVES, default=HALVES[0], help=half + HALVES[0])
    parser.set_defaults(words=list(sys.argv[1:] if arguments is None else arguments))
    return run_tool(parser, arguments, _run_race)


if __name__ == "__main__":
    raise SystemExit(main())
