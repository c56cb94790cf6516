"""Train the variants of a study with equal FLOPs, and test published claims.

    clozeline study mystudy output=studied

STUDY is a folder with a study.yaml, whose parts are `study` with the variants, `pipeline` and
`train`. The pipeline makes the sets from `input`, by default from the demo's pages. Each variant is
trained with every seed for the same FLOPs, and evaluated on the same held-out rows with the
measures that its training prepared it for. The same command resumes after an interruption.
`OUTPUT/study.txt` is made from the scores; `clozeline compare-runs` draws the curves of runs.

Variants may change the pipeline instead of the training. Each then has separate sets, with one
tokenizer, and is measured on the files of `heldout`. The table says what each step from a variant
to the next removed, and what that is worth in nats.

`texts=NAME=FILES` measures the bits per byte of texts, which compare variants with different
tokenizers. `labeled=train=FILE labeled=dev=FILE` fine-tunes each variant as study.yaml says;
further names are tests.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.studies.label_curves import label_lines
from clozeline.extensions.studies.study_plan import (
    Study,
    check_variants,
    load_study,
    plan_training,
)
from clozeline.extensions.studies.study_scores import (
    PairTest,
    loss_lines,
    pair_lines,
    step_lines,
    write_bits,
    write_losses,
)
from clozeline.extensions.studies.study_sets import (
    count_documents,
    make_all_sets,
    parse_named_files,
)
from clozeline.extensions.tasks.finetuning_scores import (
    ScoredRun,
    matrix_lines,
    read_by_split,
    scores_path,
    table_lines,
)
from clozeline.files import publish_text, publish_yaml
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import OutputPath, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.start.multirun.runner import (
    PlannedCommand,
    claim_folder,
    read_result,
    run_plan,
)

_LENGTHS: Final = ("flops", "steps", "seeds")
_MAY_CHANGE: Final = ("output", "pairs", "texts", "labeled", "dry_run", "seeds", "variants")
"""Keys that may be given to the runs of earlier calls."""


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
    study: Study, names: Iterable[str], output: Path, labeled: Mapping[str, str], at_once: int
) -> list[str]:
    """Fine-tune each run of each variant.

    Return a table for each fine-tuning of the study, and the labels that pretraining replaces.
    """
    lines: list[str] = []
    steps: list[PlannedCommand] = []
    tuned: dict[str, dict[tuple[str, str], list[Path]]] = {}

    for label, tuning in study.finetune.items():
        files = {
            name.rpartition(".")[2]: file
            for name, file in labeled.items()
            if name.rpartition(".")[0] in ("", tuning.task)
        }
        if not {"train", "dev"} <= files.keys():
            needed = f"labeled={tuning.task}.train=FILE and labeled={tuning.task}.dev=FILE"
            lines.append(f"{label}: not fine-tuned; give {needed}")
            continue
        words = [f"task={tuning.task}", "seeds=1", *tuning.words]
        words += [f"{split}={files.pop(split)}" for split in ("train", "dev")]
        words.append(f"tests={json.dumps(files)}")
        splits = ["dev", *(f"test_{name}" for name in files)]
        tuned[label] = {}

        for name, begin, seed in product(names, list[str](tuning.begin), range(study.seeds)):
            folder = output / "finetuned" / f"{label}-{name}-{begin}-{seed}"
            scores = (scores_path(folder, split, 0) for split in splits)
            body = output / f"runs/{name}-{seed}"
            seeded = [f"from={begin}", f"seed={seed}", f"data.seed={seed}", f"output={folder}"]
            command = PlannedCommand(["finetune", body, *words, *seeded], dict.fromkeys(scores))
            steps.append(command)
            tuned[label].setdefault((name, begin), []).append(folder)

    run_plan(steps, at_once)
    points: dict[str, dict[tuple[str, str, int], list[ScoredRun]]] = {}

    for label, variants in tuned.items():
        groups = []

        for (name, begin), folders in variants.items():
            runs = [read_by_split(folder) for folder in folders]
            by_split = {split: [each[split][0] for each in runs] for split in runs[0]}
            groups.append((f"{label}, {name} from {begin}", by_split))
            (train,) = folders[0].glob("sets/tasks/*/train")
            key = (study.finetune[label].task, begin, len(open_shards(train)))
            points.setdefault(name, {})[key] = by_split["dev"]

        lines += table_lines([(shown, by_split["dev"]) for shown, by_split in groups])
        lines += matrix_lines(groups)

    return lines + [f"{name}: {line}" for name in points for line in label_lines(points[name])]


def _run_study(options: StudyOptions) -> None:
    folder = options.study.resolve()
    output = options.output.resolve()
    at_once = len(os.sched_getaffinity(0))
    # read the study, and make its sets
    study, variants = load_study(folder)
    if unknown := sorted({*options.variants} - variants.keys()):
        raise ConfigurationError(
            f"variants: expected some of {', '.join(variants)}, got {unknown[0]}"
        )
    given = {key: getattr(options, key) or getattr(study, key) for key in _LENGTHS}
    study = replace(study, **given)
    check_variants(folder, variants, output)
    claim_folder(output / "study.json", options, *_MAY_CHANGE, flops=study.flops, steps=study.steps)
    heldout = parse_named_files("heldout", options.heldout)
    sets = make_all_sets(folder, output, variants, options.input, heldout)
    variants = {name: variants[name] for name in options.variants or variants}
    documents = {name: sets.variants[name].parent for name in variants}
    first = next(iter(variants))
    pairs = None if options.pairs is None else PairTest.read(options.pairs, documents[first])
    texts = parse_named_files("texts", options.texts)
    runs: dict[str, list[Path]] = {name: [] for name in variants}
    steps = []

    def scores_of(run: Path, kind: str = "") -> Path:
        return output / "scores" / kind / f"{run.name}.json"

    for variant, seed in product(variants.items(), range(study.seeds)):
        name, keys = variant
        run = output / "runs" / f"{name}-{seed}"
        runs[name].append(run)
        plan = plan_training(folder, study, variant, sets, run, seed)
        if options.dry_run:
            count = sum(plan.steps)
            print(
                f"{name}, seed {seed}: {count:,} steps, {plan.total:.3g} FLOPs, "
                f"{plan.total / count:.3g} a step, {plan.parameters:,} parameters"
            )
            continue
        results = {scores_of(run): partial(write_losses, plan)}
        for text, files in texts.items():
            results[scores_of(run, f"texts/{text}")] = partial(write_bits, run, files)
        if pairs is not None:
            results[scores_of(run, "pairs")] = partial(pairs.write, run, keys.pairs)
        config = output / "configs" / f"{run.name}.yaml"
        publish_yaml(config, plan.config)
        steps.append(PlannedCommand(["train", "--config", config], results, run))

    if options.dry_run:
        return
    # each run is one process with one thread, on the cores that this process may use
    run_plan(steps, at_once)

    def read(run: Path) -> dict[str, Any]:
        """Return what was measured of a run."""
        bits = {text: read_result(scores_of(run, f"texts/{text}"))["bits"] for text in texts}
        by_kind = {} if pairs is None else read_result(scores_of(run, "pairs"))
        return read_result(scores_of(run)) | {"bits": bits, "pairs": by_kind}

    measured = {name: [read(run) for run in of_variant] for name, of_variant in runs.items()}
    lines = [*loss_lines(study, measured), *pair_lines(measured)]

    if len({*documents.values()}) > 1:
        left = {name: count_documents(path) for name, path in documents.items()}
        lines += step_lines(variants, measured, left)
        lines.append(
            "documents behind the loss of a step: clozeline explain-batch "
            f"run={runs[first][0]} step=N"
        )

    labeled = parse_named_files("labeled", options.labeled)
    lines += _fine_tune(study, variants, output, labeled, at_once)
    text = "".join(f"{line}\n" for line in lines)
    publish_text(output / "study.txt", text)
    sys.stdout.write(text)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, StudyOptions, _run_study)


if __name__ == "__main__":
    run_as_script(main)
