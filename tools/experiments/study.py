"""Train the variants of a study with equal FLOPs, and test published claims: `clozeline study STUDY`.

STUDY is a folder: study.yaml with the variants, pipeline.yaml and train.yaml. The pipeline makes the sets from `input`,
by default from the demo's pages. Each variant is trained with every seed for the same FLOPs, and evaluated on the same
held-out rows with the measures that its training prepared it for. The same command resumes after an interruption.
`OUTPUT/study.txt` is made from the scores; study.html adds the curves of the first seed over FLOPs, and study.svg shows
both in one chart.

Variants may change the pipeline instead of the training. Each then has sets of its own, with one tokenizer, and is
measured on the files of `--heldout`. The table says what each step from a variant to the next removed, and what that is
worth in nats.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from clozeline.files import publish_text, read_json
from clozeline.pipeline.execution.stages import last_documents
from clozeline.pipeline.shards import open_shards
from clozeline.report.charts import SHADES
from clozeline.report.html_page import grid, section
from clozeline.tools.command import Arguments, natural, positive, run_tool, some_path
from clozeline.tools.experiments.multirun.comparison import difference_of, mean_text
from clozeline.tools.experiments.multirun.pair_accuracy import PairTest, pair_table
from clozeline.tools.experiments.multirun.runner import Training, collect_all, write_report
from clozeline.tools.experiments.multirun.runs_picture import Panels
from clozeline.tools.experiments.multirun.study_plan import (
    Plan,
    Study,
    Variant,
    give_files,
    have_own_pipelines,
    load_study,
    plan_training,
)
from clozeline.tools.experiments.multirun.study_sets import (
    Documents,
    count_documents,
    make_all_sets,
    measured_sets,
    named_files,
)
from clozeline.train.logs.curves import RecordedRun, heldout_losses, last_heldout, points, read_run
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.open_run import open_run


def _write_scores(variant: Variant, plan: Plan, test: PairTest | None, scores: Path) -> None:
    from clozeline.tools.runs.evaluation.heldout_score import label_loss

    run = Path(plan.config["output"])
    trained, max_rows = open_run(run), int(plan.config["evaluate"]["max_rows"])
    figures = {
        "steps": sum(plan.steps),
        "flops": plan.total,
        "tokens": sum(record["tokens"] for record in read_lines(run / "metrics.jsonl")[-1:]),
        "losses": {
            measure: label_loss(trained.model, open_shards(path), max_rows)
            for measure, path in plan.config["data"]["heldout"].items()
        },
    } | ({} if test is None else {"pairs": test.figures(run, trained, variant.pairs)})
    publish_text(scores, json.dumps(figures) + "\n")


def _measures(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    return list(dict.fromkeys(measure for seed_figures in runs.values() for measure in seed_figures[0]["losses"]))


def _losses_of(seed_figures: Sequence[Mapping[str, Any]], measure: str) -> list[float]:
    """Return the loss of each seed of a variant; empty if its training did not prepare it for the measure."""
    return [figures["losses"][measure] for figures in seed_figures if measure in figures["losses"]]


def _table_lines(study: Study, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the losses of each variant, then the claims with their verdicts."""
    measures = _measures(runs)
    seeds = len(next(iter(runs.values())))
    seeds_text = "one seed" if seeds == 1 else f"{seeds} seeds"
    yield f"{study.title}: {study.flops:.3g} operations a run, {seeds_text}; nats on held-out rows"
    yield f"{'variant':<22}{'steps':>8}{'tokens':>12}" + "".join(f"{measure:>18}" for measure in measures)
    for name, seed_figures in runs.items():
        cells = []
        for measure in measures:
            losses = _losses_of(seed_figures, measure)
            cells.append(f"{mean_text(losses, 3) if losses else '':>18}")
        yield f"{name:<22}{seed_figures[0]['steps']:>8,}{seed_figures[0]['tokens']:>12,}" + "".join(cells)
    for claim in study.orderings:
        lower, higher = (_losses_of(runs[name], claim.measure) for name in (claim.lower, claim.higher))
        gain = difference_of(higher, lower)
        yield f"{claim.measure}: {claim.lower} below {claim.higher} by {gain.text(3)}: {gain.word}. {claim.said}"


def _step_lines(
    variants: Mapping[str, Variant], runs: Mapping[str, Sequence[Mapping[str, Any]]], left: Mapping[str, Documents]
) -> Iterator[str]:
    """Yield what each step from a variant to the next leaves, and the nats that it gains on each measure."""
    heads = ("documents", "removed", "characters", "seconds")
    yield f"{'step':<18}" + "".join(f"{head:>12}" for head in heads)
    steps = {name: variant.base for name, variant in variants.items() if variant.base is not None}
    for name, own in left.items():
        cells = [f"{own.count:,}"]
        if name in steps:
            base = left[steps[name]]
            share = own.characters / max(1, base.characters)
            cells += [f"{base.count - own.count:,}", f"{share:.3f}", f"{own.seconds - base.seconds:+.1f}"]
        yield f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells)
    words = {"held": "pays", "not held": "costs"}
    for number, measure in enumerate(_measures(runs)):
        for name, base_name in steps.items():
            gain = difference_of(*(_losses_of(runs[each], measure) for each in (base_name, name)))
            # the first measure decides; on leaked items a lower loss is no gain
            word = gain.word if gain.word == "one seed" or not number else ""
            yield f"{measure}: {name} gains {gain.text(3)} nats" + (f": {words.get(word, word)}" if word else "")


def _panels(runs: Mapping[str, Sequence[Mapping[str, Any]]], first: Mapping[str, RecordedRun]) -> Iterator[Panels]:
    for measure in _measures(runs):
        last = {name: losses for name, seed_figures in runs.items() if (losses := _losses_of(seed_figures, measure))}
        curves = {
            name: [(flops / 1e12, loss) for flops, loss in points(first[name], "flops", "heldout", measure, "loss")]
            for name in last
        }
        unigram = float(last_heldout(first[next(iter(last))].records)[measure]["unigram_entropy"])
        top = max(unigram + 0.3, min(map(min, last.values())) + 0.5)
        title = f"{measure}: nats; dashed: unigram {unigram:.2f}"
        yield Panels(title, "10¹² FLOPs", curves, unigram, top, (f"{measure} at the end", last))


def _run_study(options: argparse.Namespace) -> None:
    folder, output = options.study.resolve(), options.output.resolve()
    # read the study, and make its sets
    study, variants = load_study(folder)
    study = replace(study, flops=options.flops or study.flops, seeds=options.seeds or study.seeds)
    quality = None if options.quality is None else str(options.quality.resolve())
    variants = give_files(variants, [str(path.resolve()) for path in options.items], quality)
    seeds = range(options.first_seed, options.first_seed + study.seeds)
    folders = make_all_sets(folder, output, variants, options.input, named_files(options.heldout))
    own_pipelines = have_own_pipelines(variants)
    output_of_first = next(iter(folders.values())).parent
    test = None if options.pairs is None else PairTest.read(options.pairs, last_documents(output_of_first))
    files = {name: [output / f"scores/{name}-{seed}.json" for seed in seeds] for name in variants}
    required, trainings = "losses" if test is None else "pairs", []

    def is_complete(scores: Path) -> bool:
        return required in (read_json(scores) or {})

    for name, variant in variants.items():
        heldout = measured_sets(variant, folders)
        for seed, scores in zip(seeds, files[name], strict=True):
            run = output / f"runs/{name}-{seed}"
            plan = plan_training(folder, study, variant, folders[name], run, seed, heldout)
            measure = partial(_write_scores, variant, plan, test)
            config = output / "configs" / f"{name}-{seed}.yaml"
            trainings.append(Training(config, {scores: measure}, keys=plan.config, is_complete=is_complete))
    # train and measure every variant with every seed
    collect_all(trainings, os.cpu_count() or 1)  # each run is one process with one thread
    runs = {name: [read_json(path) or {} for path in of_seeds] for name, of_seeds in files.items()}
    first = {name: read_run(output / f"runs/{name}-{seeds[0]}", name) for name in variants}
    # table and charts
    lines, panels = [*_table_lines(study, runs), *pair_table(runs)], [*_panels(runs, first)]
    if own_pipelines:
        lines += _step_lines(variants, runs, {name: count_documents(folders[name].parent) for name in variants})
        example = output / "runs" / f"{next(iter(variants))}-{seeds[0]}"
        lines.append(f"documents behind the loss of a step: clozeline explain-batch --run {example} --step N")
    # the held-out losses over FLOPs, with as many runs per chart as there are colors
    charted = [[*first.values()][start : start + SHADES] for start in range(0, len(first), SHADES)]
    charts = (section(", ".join(run.name for run in some), grid(*heldout_losses(some, "flops"))) for some in charted)
    write_report(output, "study", study.title, lines, panels, charts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument(
        "study", type=some_path, metavar="STUDY", help="folder of a study, such as configs/studies/hybrid"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of sets, runs and scores")
    parser.add_argument("--input", metavar="FILES", help="texts, as the pipeline takes them; default: the demo's pages")
    parser.add_argument(
        "--pairs", type=Path, metavar="FILES", help="minimal pairs, in BLiMP's format or as good and bad; default: none"
    )
    parser.add_argument(
        "--heldout",
        action="append",
        default=[],
        metavar="NAME=FILES",
        help="files of a measure, where variants change the pipeline",
    )
    parser.add_argument(
        "--items",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="evaluation items, which variants with `decontaminate` look for; without, there are no such variants",
    )
    parser.add_argument(
        "--quality",
        type=some_path,
        metavar="FILE",
        help="fastText model, for variants with the filter `quality`; without, there are no such variants",
    )
    parser.add_argument("--flops", type=float, help="FLOPs of each run; default: those of study.yaml")
    parser.add_argument("--seeds", type=positive, help="runs per variant; default: study.yaml's")
    parser.add_argument("--first-seed", type=natural, default=0, help="the first of these seeds; default: 0")
    return run_tool(parser, arguments, _run_study)


if __name__ == "__main__":
    raise SystemExit(main())
