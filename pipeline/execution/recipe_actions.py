"""Run the stages of a recipe, or show its plan: what the command does.

It imports all that a run needs. Help and mistakes in keys need none of it.
"""

import shutil
from pathlib import Path

from clozeline.command import Detail, stopping_at_signals, wrap_log
from clozeline.errors import ClozelineError
from clozeline.native.library import missing_note
from clozeline.pipeline.execution.inputs import LINKS_OUT
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.progress import Progress, print_table
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.runner import (
    plan_view,
    preview_stages,
    refuse_foreign_files,
    run_recipe,
)
from clozeline.pipeline.execution.stage_run import WORK_IS_DONE
from clozeline.pipeline.execution.stages import StageSummary, check_recipe, stages_of
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import Recipe
from clozeline.report.terminal_view import print_view
from clozeline.reporting import Reporting
from clozeline.terminal import Terminal, size_text


def run_stages(
    recipe: Recipe, last: str | None, detail: Detail, *, verify: bool, force: str | None
) -> int:
    """Check the recipe, run its stages up to `last`, print the table and write the report.

    last: None: all stages. verify: hash inputs and finished files before units are kept. force: a
    stage of which no unit is kept.
    """
    check_recipe(recipe)
    summaries: list[StageSummary] = []
    reports = Reporting(WORK_IS_DONE, passed=(ClozelineError, OSError))
    if detail != "quiet" and (note := missing_note()):
        show_line(f"note: {note}")

    try:
        with stopping_at_signals():
            plan = run_recipe(recipe, last, Progress(detail), summaries, verify=verify, force=force)
    finally:
        if summaries and detail != "quiet":
            with reports("the table"):
                print_table(summaries)

    with reports("report.html"):
        path = write_run_report(recipe, stages_of(recipe, last), plan)
        if detail != "quiet":
            show_line(wrap_log(f"report: {path}"))

    return 0


def show_plan(recipe: Recipe, last: str | None, *, verify: bool, force: str | None) -> int:
    """Show the units that `run_stages` would keep and make, without writing."""
    check_recipe(recipe)
    names = stages_of(recipe, last)
    refuse_foreign_files(recipe, names)
    plan = load_plan(recipe, verify=verify)
    executor = recipe.executor
    show_line(f"executor: {executor.name}, {executor.component().build(executor).describe()}")
    show_line(f"output: {recipe.output}, free space: {size_text(free_bytes(recipe.output_folder))}")
    names_skipped = dict(plan.skipped)
    if links := names_skipped.pop(LINKS_OUT, 0):
        show_line(f"links that leave their input folder, and are followed: {links:,}")
    if names_skipped:
        skipped = ", ".join(f"{count:,} {name}" for name, count in sorted(names_skipped.items()))
        show_line(f"files that are skipped by their names: {skipped}")

    previews = preview_stages(recipe, names, plan, KnownRecords(), verify, force)
    print_view(plan_view(plan, previews), Terminal())
    return 0


def show_line(text: str) -> None:
    """Print a line as it is."""
    Terminal().print(text, highlight=False, soft_wrap=True, markup=False)


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the file system of a folder, which may not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    return shutil.disk_usage(existing).free
