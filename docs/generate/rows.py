"""Run the commands of docs/rows.yaml, and write docs/rows.md with their output.

python -m docs.generate.rows [--only TOPIC] [--folder DIR]
"""

import argparse
import datetime as dt
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from clozeline.tools.start.lab import all_labs, read_lab
from docs.generate.labs import run_lab

_DOCS: Final = Path(__file__).parents[1]
_MOST_MATCHES: Final = 4
"""Texts of rows that an expression may match: its own, and those with the same answer."""


class Row(NamedTuple):
    """One row of the page: a topic of a course with its command."""

    topic: str
    taught: str
    run: str
    shows: str
    """regular expression that the printed text must match"""
    example: str = ""
    """section of docs/textbook.md that shows the printed text in full"""


class Printed(NamedTuple):
    """What the command of a row printed."""

    code: int
    text: str
    seconds: float

    def answers(self, row: Row) -> list[str]:
        """Return the lines that hold the answer of a row, or an empty list."""
        return find_lines(row.shows, self.text) if self.code == 0 else []


def read_rows(content: Mapping[str, Any]) -> list[Row]:
    """Return the rows of docs/rows.yaml in order."""
    return [
        Row(topic, taught, **row)
        for topic, rows in content["topics"].items()
        for taught, row in rows.items()
    ]


def write_files(files: Mapping[str, Any], folder: Path) -> None:
    """Write the files that the commands read, and link `configs` and `docs` of the repository."""
    for name in ("configs", "docs"):
        (folder / name).exists() or (folder / name).symlink_to(_DOCS.parent / name)
    for name, text in files.items():
        if isinstance(text, list):
            text = "".join(f"{json.dumps(line)}\n" for line in text)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False)
        )


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Return exit code and output of a command, as a user would type it in this folder."""
    environment = {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": str(_DOCS.parent),
        "COLUMNS": "200",
    }
    streams: Any = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=environment, errors="replace", **streams
    )
    return done.returncode, done.stdout


def find_lines(shows: str, text: str) -> list[str]:
    """Return the lines that hold the first match of an expression, or an empty list."""
    match = re.search(shows, text, flags=re.MULTILINE)
    if match is None:
        return []
    start = text.rfind("\n", 0, match.start()) + 1
    end = f"{text}\n".find("\n", match.end())
    lines = [" ".join(line.split()) for line in text[start:end].splitlines() if line.strip()]
    return lines if len(lines) <= 2 else [lines[0], "…", lines[-1]]


def run_row(row: Row, folder: Path) -> Printed:
    """Return what a row prints.

    The folder keeps it: another start runs the row only if it failed, or does not match now.
    """
    digest = hashlib.sha256(row.run.encode()).hexdigest()
    result = folder / "printed" / f"{digest}.json"
    kept = Printed(**json.loads(result.read_text())) if result.exists() else None
    if kept and find_lines(row.shows, kept.text):
        return kept

    start = time.monotonic()
    code, text = run_command(row.run, folder)
    printed = Printed(code, text, round(time.monotonic() - start, 1))
    if code == 0:
        result.write_text(json.dumps(printed._asdict()))
    return printed


def report(row: Row, printed: Printed) -> None:
    """Say whether a row printed its answer."""
    sys.stdout.write(f"{printed.seconds:5.1f} s  {row.topic}: {row.taught}: ")
    failure = f"FAILED with code {printed.code}; expected: {row.shows}\n  {row.run}\n{printed.text}"
    sys.stdout.write(("ok" if printed.answers(row) else failure) + "\n")
    sys.stdout.flush()


def run_rows(rows: Iterable[Row], folder: Path) -> dict[Row, Printed]:
    """Run rows one after another, and return what each printed."""
    ran = {}
    for row in rows:
        ran[row] = run_row(row, folder)
        report(row, ran[row])
    return ran


def find_general_patterns(ran: Mapping[Row, Printed]) -> list[str]:
    """Return the rows whose expression matches what many other rows print.

    Such an expression is about a command's own message, and does not notice a wrong answer.
    """
    texts = {printed.text for printed in ran.values()}
    return [
        f"{row.topic}: {row.taught}: the expression also matches other rows: {row.shows}"
        for row in ran
        if sum(bool(find_lines(row.shows, text)) for text in texts) > _MOST_MATCHES
    ]


def run_cells(name: str, folder: Path) -> dict[Row, Printed]:
    """Run the cells of a lab in a folder of its own, and return what each printed."""
    lab = read_lab(name)
    topic = f"Lab {name.removeprefix('lab')}: {lab.title.partition(': ')[2]}"
    digest = hashlib.sha256(repr(lab).encode()).hexdigest()
    result = folder / "printed" / f"{digest}.json"
    if result.exists():
        return {Row(*row): Printed(*printed) for row, printed in json.loads(result.read_text())}

    shutil.rmtree(folder / name, ignore_errors=True)
    ran = {}
    for title, cell, text, seconds, is_right, _ in run_lab(lab, folder / name):
        row = Row(topic, title, cell.source, cell.shows)
        printed = Printed(0 if is_right else 1, text, round(seconds, 1))
        # a cell without an expression only prepares the next one
        if cell.shows or not is_right:
            ran[row] = printed
            report(row, printed)
    if all(printed.code == 0 for printed in ran.values()):
        result.write_text(json.dumps(list(ran.items())))
    return ran


def write_page(content: Mapping[str, Any], ran: Mapping[Row, Printed]) -> str:
    """Return the page as Markdown."""

    def code(text: str, longest: int = 80) -> str:
        fence = ("`` ", " ``") if "`" in text else ("`", "`")
        return (text if len(text) <= longest else f"{text[:longest]} …").join(fence)

    def entry(row: Row) -> str:
        if row.example:
            return f"- [{row.taught}](textbook.md#{row.example})"
        answer = " ".join(map(code, ran[row].answers(row)))
        return f"- {row.taught}: {code(row.run, len(row.run))} → {answer}"

    head = content["head"].format(
        rows=len(read_rows(content)),
        minutes=round(sum(printed.seconds for printed in ran.values()) / 60),
        date=dt.date.today(),
    )
    parts = [head, "```text\n" + "\n".join(content["prepare"]) + "\n```"]
    for topic, rows in itertools.groupby(ran, lambda row: row.topic):
        if topic in content["topics"]:
            parts += [f"## {topic}", "\n".join(map(entry, rows))]
    return "\n\n".join([*parts, content["left_out"].rstrip()]) + "\n"


def prepare(content: Mapping[str, Any], folder: Path) -> None:
    """Write the files of the rows, and run the commands that many rows need."""
    folder.mkdir(parents=True, exist_ok=True)
    write_files(content["files"], folder)
    for command in content["prepare"]:
        if (done := run_command(command, folder))[0]:
            sys.exit(f"code {done[0]}: {command}\n{done[1]}")
    (folder / "printed").mkdir()


def main() -> int:
    """Run the rows, two topics at a time; return 1 if a row failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run this topic or lab, without writing the page")
    parser.add_argument(
        "--folder", type=Path, help="keep all files here; another start runs the rows that failed"
    )
    options = parser.parse_args()

    content = yaml.safe_load((_DOCS / "rows.yaml").read_text(encoding="utf-8"))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="rows-"))
    if not (folder / "printed").exists():
        prepare(content, folder)

    by_topic: dict[str, list[Row]] = {}
    for row in read_rows(content):
        by_topic.setdefault(row.topic, []).append(row)
    labs = [name for name in all_labs() if options.only in (None, name)]
    topics = [topic for topic in by_topic if options.only in (None, topic)]

    # labs take longest, and start first
    with ThreadPoolExecutor(2) as pool:
        cells = [pool.submit(run_cells, name, folder) for name in labs]
        rows = [pool.submit(run_rows, by_topic[topic], folder) for topic in topics]
    ran = {row: printed for done in (*rows, *cells) for row, printed in done.result().items()}

    failed = [f"{row.topic}: {row.taught}" for row in ran if not ran[row].answers(row)]
    failed += find_general_patterns({row: ran[row] for row in ran if row.topic in by_topic})
    sys.stdout.write(f"{len(ran)} rows in {folder}, {len(failed)} failed\n")
    sys.stdout.writelines(f"  {line}\n" for line in failed)
    if not failed and options.only is None:
        (_DOCS / "rows.md").write_text(write_page(content, ran), encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
