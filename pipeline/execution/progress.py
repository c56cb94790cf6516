"""Show the progress of a run: a live bar on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from clozeline.pipeline.execution.inputs import join_names


class Progress:
    """Progress of one run on stderr."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show `total` units under a title; the yielded function takes the number done."""
        if not total:
            yield lambda done: None
        elif self.console.is_terminal:
            columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with RichProgress(*columns, console=self.console, transient=True) as live:
                task = live.add_task(title, total=total)
                yield lambda done: live.update(task, completed=done)
                live.update(task, completed=total)
        else:
            self.console.print(f"{title}: {total} unit{'s' if total > 1 else ''}", highlight=False)
            yield lambda done: None

    def report_removal(self, path: Path) -> None:
        """Report that a file made by a user is removed, because its subject is rebuilt."""
        self.console.print(f"{path} is removed: what it speaks of is made again", highlight=False, soft_wrap=True)

    def report(self, message: str) -> None:
        """Show a message that does not end the run."""
        self.console.print(message, highlight=False, soft_wrap=True)

    def report_skips(self, files: Sequence[Path]) -> None:
        """Say which files of input folders are skipped, the first ones by name."""
        self.console.print(
            f"input: {len(files):,} files of no known kind skipped: {join_names(files)}", highlight=False
        )

    def report_growth(self, output: Path, files: int) -> None:
        """Say how many files join a complete run."""
        self.console.print(f"{output}: {files:,} new input file{'s' * (files != 1)} join the run", highlight=False)

    def waiting(self) -> None:
        """Say that another run holds the output."""
        self.console.print("another run is writing this output: waiting for it", highlight=False)

    def stage_done(self, name: str, seconds: float, *, skipped: bool) -> None:
        """Say that a stage is complete."""
        how = "already complete" if skipped else f"done in {seconds:.1f} s"
        self.console.print(f"{name}: {how}", highlight=False)
