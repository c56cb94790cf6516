"""Run a recipe, or one stage of it.

Examples: `clozeline pipeline --config RECIPE`, `clozeline clean --config RECIPE`.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

from clozeline.command import (
    DetailOptions,
    keys_of,
    program_name,
    run_command,
    stopping_at_signals,
    wrap_log,
)
from clozeline.command_line import (
    Dashed,
    OtherKeys,
    asks_for_help,
    key_lines,
    print_help,
    read_words,
    wants_all_keys,
)
from clozeline.configuration.config import config_class, config_file
from clozeline.configuration.described_keys import DescribedKey, describe
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.native.library import missing_note
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.progress import Progress, plan_lines, print_table
from clozeline.pipeline.execution.report import earlier_report, write_run_report
from clozeline.pipeline.execution.runner import (
    describe_plan,
    preview_stages,
    run_recipe,
    warn_of_new_tokenizer,
)
from clozeline.pipeline.execution.stage_run import WORK_IS_DONE
from clozeline.pipeline.execution.stages import StageSummary, check_recipe, stages_of
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import Recipe, load_default_recipe, load_recipe
from clozeline.pipeline.registries import (
    EXECUTORS,
    EXTRACTORS,
    FILTERS,
    GROUPINGS,
    LANGUAGES,
    OBJECTIVES,
    READERS,
)
from clozeline.process import python_command
from clozeline.reporting import Reporting
from clozeline.terminal import Terminal, size_text

# Algorithms whose options stand next to other keys of a recipe.
_ALGORITHMS: Final = (
    ("input", "reader", READERS),
    ("executor.options", "executor.name", EXECUTORS),
    ("clean.extractor", "name", EXTRACTORS),
    ("clean.language", "name", LANGUAGES),
    ("clean.filters", "name", FILTERS),
    ("group", "name", GROUPINGS),
    ("corrupt", "name", OBJECTIVES),
)


@config_class
class PipelineOptions(DetailOptions):
    """A recipe, and options that say how to run it."""

    config: Annotated[str | None, Dashed("FILE")] = None
    """the recipe: a YAML file, or recipe:NAME for one that comes with Clozeline"""
    verify: bool = False
    """hash inputs and finished files before units are skipped"""
    plan: bool = False
    """show which units are kept, which would run and why, and do nothing"""
    force: Annotated[str | None, Dashed("STAGE")] = None
    """make all units of a stage again"""
    detach: bool = False
    """submit the driver itself as a job of Slurm, and return"""
    words: Annotated[tuple[str, ...], OtherKeys("for example input=FILES output=DIR")] = ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a recipe, or the stage that the first argument names, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in all_stages():
        return run_stage(words[0], words[1:])
    return run_command(
        lambda: _parse_and_run("python -m pipeline", "Run every stage of a recipe.", None, words)
    )


def run_stage(stage: str, arguments: Sequence[str]) -> int:
    """Run one stage of a recipe and return the exit code; earlier stages must be complete."""
    program = f"python -m pipeline {stage}"
    description = f"Run the stage '{stage}' of a recipe."
    return run_command(lambda: _parse_and_run(program, description, stage, arguments))


def _parse_and_run(
    program: str, description: str, stage: str | None, arguments: Sequence[str]
) -> int:
    if asks_for_help(arguments):
        print_help(PipelineOptions, arguments, description, program_name(program))
        _print_keys(stage, wants_all_keys(arguments))
        return 0

    options = read_words(PipelineOptions, arguments)
    if options.config is not None:
        recipe = load_recipe(
            config_file(options.config, "pipeline.yaml"), options.words, is_users=True
        )
    elif stage is not None:
        recipe, note = load_default_recipe(stage, options.words)
        if options.detail != "quiet":
            _show(wrap_log(note))
    else:
        raise ConfigurationError(
            "--config FILE is missing: `clozeline new DIR input=FILES` writes a recipe. A stage "
            "also runs with its defaults: clozeline clean input=FILES output=DIR; see --help"
        )

    check_recipe(recipe)
    if options.plan:
        return _show_plan(recipe, stage, options)
    if options.detach:
        return _detach(
            recipe, [stage or "pipeline", *(word for word in arguments if word != "--detach")]
        )

    return _run(recipe, stage, options)


def _print_keys(stage: str | None, all_keys: bool) -> None:
    """Print the keys of a stage, or the common keys without one; `all_keys` prints every key."""
    keys: Iterable[DescribedKey]

    if all_keys:
        order = {name: index for index, name in enumerate(all_stages())}
        keys = sorted(
            keys_of(Recipe, _ALGORITHMS),
            key=lambda key: order.get(key.key.partition(".")[0], -1),
        )
        title = "keys of the configuration"
    elif stage is not None:
        keys = (key for key in keys_of(Recipe, _ALGORITHMS) if key.key.partition(".")[0] == stage)
        title = f"keys of the stage {stage}"
    else:
        keys = describe(Recipe, common=True)
        title = "keys that are set most often"

    lines = "\n".join(key_lines(keys, title))
    more = "" if all_keys else "\n`--help all` shows all keys.\n"
    sys.stdout.write(f"\n{lines}\n{more}")


def _run(recipe: Recipe, only: str | None, options: PipelineOptions) -> int:
    """Run the stages, or one of them, print the table and write the report."""
    detail = options.detail
    earlier_report(recipe.output_folder / "report.json")  # raises if a newer version wrote it
    summaries: list[StageSummary] = []
    reports = Reporting(WORK_IS_DONE, passed=(ClozelineError, OSError))
    if detail != "quiet" and (note := missing_note()):
        _show(f"note: {note}")

    try:
        with stopping_at_signals():
            run_recipe(
                recipe,
                only,
                Progress(detail),
                summaries,
                verify=options.verify,
                force=options.force,
            )
    finally:
        if summaries and detail != "quiet":
            with reports("the table"):
                print_table(summaries)

    names = stages_of(recipe)

    with reports("report.html"):
        path = write_run_report(recipe, names if only is None else names[: names.index(only) + 1])
        if detail != "quiet":
            _show(wrap_log(f"report: {path}"))

    return 0


def _detach(recipe: Recipe, words: Sequence[str]) -> int:
    """Check the recipe as far as possible now, then submit this command as a job."""
    executor = recipe.executor.component().build(recipe.executor)
    if not hasattr(executor, "detach"):
        raise ConfigurationError(
            f"--detach: expected executor.name=slurm, got {recipe.executor.name}"
        )
    load_plan(recipe)
    job, log = executor.detach(recipe.output_folder, python_command("-m", "clozeline", *words))
    _show(f"Slurm job {job} runs the pipeline; its log: {log}")
    _show(f"`scancel {job}` stops it; running the same command again continues")
    return 0


def _show_plan(recipe: Recipe, only: str | None, options: PipelineOptions) -> int:
    """Show the units that a run would keep and make, without writing anything."""
    plan = load_plan(recipe, verify=options.verify)
    executor = recipe.executor
    at_once = "" if executor.workers is None else f", {executor.workers} at a time"
    _show(f"executor: {executor.name}, tasks of a pass: {executor.tasks}{at_once}")
    _show(f"output: {recipe.output}, free space: {size_text(free_bytes(recipe.output_folder))}")
    if plan.skipped:
        skipped = ", ".join(f"{count:,} {name}" for name, count in sorted(plan.skipped.items()))
        _show(f"files that are skipped by their names: {skipped}")

    names = stages_of(recipe)
    if only is not None:
        names = names[: names.index(only) + 1]
    known = KnownRecords()
    previews = preview_stages(recipe, names, plan, known, options.verify, options.force)
    rows = [each.row() for each in previews if only in (None, each.stage)]
    for line in plan_lines(describe_plan(plan), rows):
        _show(line)
    if warning := warn_of_new_tokenizer(recipe, rows):
        _show(wrap_log(warning))
    return 0


def _show(text: str) -> None:
    Terminal().print(text, highlight=False, soft_wrap=True, markup=False)


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the file system of a folder, which may not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    return shutil.disk_usage(existing).free
