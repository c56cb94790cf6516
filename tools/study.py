"""Train the variants of a study at equal arithmetic, and judge published orderings: `python tools/study.py STUDY`.

STUDY is a folder: study.yaml, pipeline.yaml, train.yaml and variants/*.yaml. The pipeline makes the sets from `input`,
by default from the demo's crawl. Each variant is trained with every seed for the same number of operations, and its
loss is taken on the same held-out rows, of the measures that its training prepared it for. The same command continues
what was interrupted. `OUTPUT/study.txt` is made from the scores alone; study.html adds the curves of the first seed
over operations, and study.svg is one picture of both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from pipeline.charts.drawing import SHADES
from pipeline.files import publish, read_json
from pipeline.html_page import grid, listing, page, section, write_page
from pipeline.shards import open_shards
from tools.evaluation.comparison import mean_and_deviation
from tools.lib.chain import crawl, run_step
from tools.lib.command import Arguments, positive, run_tool, some_path
from tools.lib.runs_picture import Panels, runs_picture
from tools.lib.trained_model import load_trained
from tools.studies.pairs import PairTest, pair_table
from tools.studies.plan import Study, Training, Variant, load_study, planned
from tools.studies.scores import batch_losses, loss_of, verdict
from train.logs.curves import RecordedRun, heldout_losses, last_heldout, points, read_run
from train.logs.journal import read_lines

__all__ = ["main"]

_PAGES: Final = 1000
"""Most pages of the demo's crawl: all of the documentation."""


def _sets(folder: Path, output: Path, given: str | None) -> Path:
    """Make the sets, unless that is done; return their folder."""
    if given is None:
        crawl(output / "crawl", _PAGES)
        given = str(output / "crawl" / "pydoc.warc.gz")
    words = [f"input={given}", f"output={output / 'shards'}"]
    run_step("python", "-m", "pipeline", "--config", folder / "pipeline.yaml", *words, accelerator=None)
    return output / "shards" / "corrupt"


def _run(
    name: str, variant: Variant, training: Training, sets: Path, output: Path, test: PairTest | None
) -> dict[str, Any]:
    """Train and measure one run, unless that is done; return its figures."""
    scores = output / "scores" / f"{name}.json"
    known = read_json(scores) if scores.exists() else None
    if known is not None and (test is None or "pairs" in known):
        return dict(known)
    run = Path(training.config["output"])
    written = output / "configs" / f"{name}.yaml"
    written.parent.mkdir(parents=True, exist_ok=True)
    with publish(written) as temporary:
        temporary.write_text(yaml.safe_dump(training.config, sort_keys=False), encoding="utf-8")
    run_step("python", "train/main.py", "--config", written, accelerator=None)
    trained, most = load_trained(run), int(training.config["evaluate"]["max_rows"])
    metrics = read_lines(run / "metrics.jsonl")
    found = {
        "steps": sum(training.steps),
        "flops": training.total,
        "tokens": sum(one["tokens"] for one in metrics[-1:]),
        "losses": {
            measure: batch_losses(trained.model, open_shards(sets / chosen / "heldout"), most)
            for measure, chosen in variant.measures.items()
        },
    } | ({} if test is None else {"pairs": test.figures(run, trained, variant.pairs)})
    scores.parent.mkdir(parents=True, exist_ok=True)
    with publish(scores) as temporary:
        temporary.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found


def _measures(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the measures that any variant has."""
    return list(dict.fromkeys(measure for found in runs.values() for measure in found[0]["losses"]))


def _losses_of(found: Sequence[Mapping[str, Any]], measure: str) -> list[float]:
    """Return the loss of each seed of a variant; none where its training did not prepare it for the measure."""
    return [loss_of(np.array(one["losses"][measure])) for one in found if measure in one["losses"]]


def _table(study: Study, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the losses of each variant, then the orderings with their verdicts, which know seeds and rows."""
    measures = _measures(runs)
    seeds = len(next(iter(runs.values())))
    of_seeds = "one seed" if seeds == 1 else f"{seeds} seeds"
    yield f"{study.title}: {study.flops:.3g} operations a run, {of_seeds}; nats on held-out rows"
    yield f"{'variant':<22}{'steps':>8}{'tokens':>12}" + "".join(f"{measure:>18}" for measure in measures)
    for name, found in runs.items():
        cells = []
        for measure in measures:
            losses = _losses_of(found, measure)
            mean, deviation = mean_and_deviation(losses) if losses else (0.0, None)
            shown = f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")
            cells.append(f"{shown if losses else '':>18}")
        yield f"{name:<22}{found[0]['steps']:>8,}{found[0]['tokens']:>12,}" + "".join(cells)
    for claim in study.orderings:
        sides = [[np.array(one["losses"][claim.measure]) for one in runs[name]] for name in (claim.lower, claim.higher)]
        judged = verdict(sides[0], sides[1])
        yield (
            f"{claim.measure}: {claim.lower} below {claim.higher} by {judged.gain:+.3f} "
            f"[{judged.low:+.3f}, {judged.high:+.3f}]: {judged.word}. {claim.said}"
        )


def _pictures(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """Yield the held-out losses over operations, of as many runs at once as there are colours."""
    for first in range(0, len(runs), SHADES):
        some = runs[first : first + SHADES]
        yield section(", ".join(run.name for run in some), grid(*heldout_losses(some, "flops")))


def _picture(study: Study, runs: Mapping[str, Sequence[Mapping[str, Any]]], first: Mapping[str, RecordedRun]) -> str:
    """Return the SVG of losses on the way and at the end, a row for each measure."""
    rows = []
    for measure in _measures(runs):
        last = {name: losses for name, found in runs.items() if (losses := _losses_of(found, measure))}
        curves = {
            name: [(flops / 1e12, loss) for flops, loss in points(first[name], "flops", "heldout", measure, "loss")]
            for name in last
        }
        unigram = float(last_heldout(first[next(iter(last))].records)[measure]["unigram_entropy"])
        top = max(unigram + 0.3, min(map(min, last.values())) + 0.5)
        title = f"{measure}: nats; dashed: unigram {unigram:.2f}"
        rows.append(Panels(title, "10¹² FLOPs", curves, unigram, top, (f"{measure} at the end", last)))
    return runs_picture(study.title, rows)


def _study(options: argparse.Namespace) -> int:
    folder, output = options.study.resolve(), options.output.resolve()
    study, variants = load_study(folder)
    study = replace(study, flops=options.flops or study.flops, seeds=options.seeds or study.seeds)
    sets = _sets(folder, output, options.input)
    test = None if options.pairs is None else PairTest.read(options.pairs, sets.parent / "dedup" / "documents")
    trainings = {
        f"{name}-{seed}": (variant, planned(folder, study, variant, sets, output / f"runs/{name}-{seed}", seed))
        for name, variant in variants.items()
        for seed in range(study.seeds)
    }
    os.environ.pop("MASTER_PORT", None)  # runs at the same time need a port each
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a run is a process of its own, with one thread
        begun = {name: pool.submit(_run, name, *training, sets, output, test) for name, training in trainings.items()}
        found = {name: run.result() for name, run in begun.items()}
    runs = {name: [found[f"{name}-{seed}"] for seed in range(study.seeds)] for name in variants}
    lines = [*_table(study, runs), *pair_table(runs)]
    with publish(output / "study.txt") as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    first = {name: read_run(output / f"runs/{name}-0", name) for name in variants}
    write_page(output / "study.svg", _picture(study, runs, first))
    write_page(output / "study.html", page(study.title, [listing("\n".join(lines)), *_pictures([*first.values()])]))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument(
        "study", type=some_path, metavar="STUDY", help="folder of a study, such as configs/studies/hybrid"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of sets, runs and scores")
    parser.add_argument("--input", metavar="FILES", help="texts, as the pipeline takes them; default: the demo's crawl")
    parser.add_argument(
        "--pairs", type=Path, metavar="FILES", help="minimal pairs, in BLiMP's format or as good and bad; default: none"
    )
    parser.add_argument("--flops", type=float, help="operations of each run; default: those of study.yaml")
    parser.add_argument("--seeds", type=positive, help="runs of each variant; default: those of study.yaml")
    return run_tool(parser, arguments, _study)


if __name__ == "__main__":
    raise SystemExit(main())
