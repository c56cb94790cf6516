"""Train the variants of a study with equal FLOPs, and test published claims.

    clozeline study STUDY

STUDY is a folder with a study.yaml, whose parts are `study` with the variants, `pipeline` and
`train`. The pipeline makes the sets from `input`, by default from the demo's pages. Each variant is
trained with every seed for the same FLOPs, and evaluated on the same held-out rows with the
measures that its training prepared it for. The same command resumes after an interruption.
`OUTPUT/study.txt` is made from the scores; study.html adds the curves of the first seed over FLOPs.

Variants may change the pipeline instead of the training. Each then has separate sets, with one
tokenizer, and is measured on the files of `heldout`. The table says what each step from a variant
to the next removed, and what that is worth in nats.

`texts=NAME=FILES` measures the bits per byte of texts, which compare variants with different
tokenizers. `labeled=train=FILE labeled=dev=FILE` fine-tunes each variant as study.yaml says;
further names are tests.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.studies.label_curves import LabelPoint, label_lines
from clozeline.extensions.studies.study_plan import (
    Study,
    VariantSets,
    check_variants,
    have_own_pipelines,
    load_study,
    plan_training,
)
from clozeline.extensions.studies.study_scores import (
    PairTest,
    loss_lines,
    pair_lines,
    step_lines,
    write_scores,
)
from clozeline.extensions.studies.study_sets import (
    count_documents,
    find_measured_sets,
    make_all_sets,
    parse_named_files,
)
from clozeline.extensions.tasks.commands.finetune import FinetuneOptions, finetune
from clozeline.extensions.tasks.finetuning_scores import (
    matrix_lines,
    read_by_split,
    read_scored,
    table_lines,
)
from clozeline.files import publish_text, read_json
from clozeline.pipeline.execution.stages import last_documents
from clozeline.report.charts import SHADES
from clozeline.report.html_page import page
from clozeline.report.views import Passage, Section
from clozeline.tools.command import OutputPath, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.start.multirun.runner import ExperimentTraining, collect_all
from clozeline.train.logs.curves import heldout_losses, read_run


@config_class
class StudyOptions:
    """A study, its texts, and what is measured."""

    study: Annotated[UserPath, Positional(0)]
    """folder of a study, such as configs/studies/hybrid, or another file in it, such as gpu.yaml"""
    output: OutputPath
    """folder of sets, runs and scores"""
    input: str | None = None
    """texts, as the pipeline takes them; default: the demo's pages"""
    pairs: UserPath | None = None
    """minimal pairs, in BLiMP's format or as good and bad; default: none"""
    heldout: Names = field(default_factory=list)
    """NAME=FILES, files of a measure, where variants change the pipeline; may be repeated"""
    texts: Names = field(default_factory=list)
    """NAME=FILES, texts to measure in bits per byte; may be repeated"""
    labeled: Names = field(default_factory=list)
    """SPLIT=FILE, labeled rows: train, dev, and other tests; TASK.SPLIT=FILE for the fine-tunings
    of one task; may be repeated"""
    dry_run: bool = False
    """make the sets, and print the steps, FLOPs and parameters of each run"""
    flops: Annotated[float, Field(gt=0)] | None = None
    """FLOPs of each run; default: those of study.yaml"""
    steps: Positive | None = None
    """steps of each run instead of FLOPs, for equal tokens; default: study.yaml's"""
    seeds: Positive | None = None
    """runs per variant; default: study.yaml's"""
    variants: Names = field(default_factory=list)
    """variants to train; default: all"""


def _fine_tune(
    study: Study, names: Iterable[str], output: Path, labeled: Mapping[str, str]
) -> list[str]:
    """Fine-tune the first run of each variant.

    Return a table for each fine-tuning of the study, and the labels that pretraining replaces.
    """
    lines: list[str] = []
    points: dict[str, list[LabelPoint]] = {name: [] for name in names}

    for label, tuning in study.finetune.items():
        files = _files_of_task(tuning.task, labeled)
        if not {"train", "dev"} <= files.keys():
            names_of_files = f"labeled={tuning.task}.train=FILE and labeled={tuning.task}.dev=FILE"
            lines.append(f"{label}: not fine-tuned; give {names_of_files}")
            continue
        folders = {}

        for name, begin in product(names, tuning.begin):
            folders[f"{label}, {name} from {begin}"] = folder = (
                output / "finetuned" / f"{label}-{name}-{begin}"
            )
            source: dict[str, Any] = {"from": begin}
            tests = {split: file for split, file in files.items() if split not in ("train", "dev")}
            chosen = FinetuneOptions(
                task=tuning.task,
                train=files["train"],
                dev=files["dev"],
                output=folder,
                tests=tests,
                seeds=tuning.seeds or study.seeds,
                **source,
            )

            plan = finetune(output / f"runs/{name}-0", chosen, tuning.words)
            points[name].append(LabelPoint(tuning.task, begin, plan.rows, read_scored(folder)))

        groups = [(shown, read_by_split(folder)) for shown, folder in folders.items()]
        lines += [
            *table_lines([(shown, by_split["dev"]) for shown, by_split in groups]),
            *matrix_lines(groups),
        ]

    for name, of_variant in points.items():
        lines += [f"{name}: {line}" for line in label_lines(of_variant)]
    return lines


def _files_of_task(task: str, labeled: Mapping[str, str]) -> dict[str, Path]:
    """Return the labeled files of a task by split: those of its own, and those of all tasks."""
    files = {}
    for name, file in labeled.items():
        owner, _, split = name.rpartition(".")
        if owner in ("", task):
            files[split] = Path(file).resolve()
    return files


def _run_study(options: StudyOptions) -> None:
    folder = options.study.resolve()
    output = options.output.resolve()
    # read the study, and make its sets
    study, variants = load_study(folder)
    if unknown := sorted(set(options.variants) - variants.keys()):
        raise ConfigurationError(
            f"variants: expected some of {', '.join(variants)}, got {unknown[0]}"
        )
    study = replace(
        study,
        flops=options.flops or study.flops,
        steps=options.steps or study.steps,
        seeds=options.seeds or study.seeds,
    )
    seeds = range(study.seeds)
    check_variants(folder, variants, output)
    folders = make_all_sets(
        folder, output, variants, options.input, parse_named_files(options.heldout)
    )
    own_pipelines = have_own_pipelines(variants)
    variants = {name: variants[name] for name in options.variants or variants}
    output_of_first = next(iter(folders.values())).parent
    test = (
        None
        if options.pairs is None
        else PairTest.read(options.pairs, last_documents(output_of_first))
    )

    files = {name: [output / f"scores/{name}-{seed}.json" for seed in seeds] for name in variants}
    required = "losses" if test is None else "pairs"
    trainings = []
    texts = parse_named_files(options.texts)

    def is_complete(scores: Path) -> bool:
        figures = read_json(scores) or {}
        return required in figures and texts.keys() <= figures.get("bits", {}).keys()

    for name, variant in variants.items():
        heldout = find_measured_sets(variant, folders)

        for seed, scores in zip(seeds, files[name], strict=True):
            run = output / f"runs/{name}-{seed}"
            sets = VariantSets(folders[name], folders)
            plan = plan_training(folder, study, variant, sets, run, seed, heldout)
            if options.dry_run:
                steps = sum(plan.steps)
                print(
                    f"{name}, seed {seed}: {steps:,} steps, {plan.total:.3g} FLOPs, "
                    f"{plan.total / steps:.3g} a step, {plan.parameters:,} parameters"
                )
            measure = partial(write_scores, variant, plan, test, texts)
            config = output / "configs" / f"{name}-{seed}.yaml"
            trainings.append(
                ExperimentTraining(
                    config, {scores: measure}, keys=plan.config, is_complete=is_complete
                )
            )

    if options.dry_run:
        return
    # train and measure every variant with every seed
    # each run is one process with one thread, on the cores that this process may use
    collect_all(trainings, len(os.sched_getaffinity(0)))
    runs = {name: [read_json(path) or {} for path in of_seeds] for name, of_seeds in files.items()}
    # table, and the curves of the first seed: as many runs per chart as there are colors
    lines = [*loss_lines(study, runs), *pair_lines(runs)]

    if own_pipelines:
        lines += step_lines(
            variants, runs, {name: count_documents(folders[name].parent) for name in variants}
        )
        example = output / "runs" / f"{next(iter(variants))}-0"
        lines.append(
            f"documents behind the loss of a step: clozeline explain-batch run={example} step=N"
        )

    lines += _fine_tune(study, variants, output, parse_named_files(options.labeled))
    first = [read_run(output / f"runs/{name}-0", name) for name in variants]
    charted = [first[start : start + SHADES] for start in range(0, len(first), SHADES)]
    charts = [
        Section(", ".join(run.name for run in some), [*heldout_losses(some, "flops")], is_row=True)
        for some in charted
    ]
    text = "".join(f"{line}\n" for line in lines)
    publish_text(output / "study.txt", text)
    publish_text(
        output / "study.html", page(Section(study.title, [Passage.of(text, role="code"), *charts]))
    )
    sys.stdout.write(text)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, StudyOptions, _run_study)


if __name__ == "__main__":
    run_as_script(main)
