"""Run the commands of docs/rows.yaml, and write docs/rows.md with their output.

python -m docs.generate.rows [--only TOPIC] [--folder DIR]
"""

import argparse
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_DOCS: Final = Path(__file__).parents[1]


class Row(NamedTuple):
    """One row of the page: a topic of a course with its command."""

    topic: str
    taught: str
    run: str
    shows: str
    """regular expression that the printed text must match"""
    example: str = ""
    """section of docs/textbook.md that shows the printed text in full"""


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
        ["bash", "-ec", command], cwd=folder, env=environment, text=True, **streams
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
    return lines if len(lines) <= 4 else [*lines[:2], "…", lines[-1]]


def run_rows(rows: list[Row], folder: Path) -> list[tuple[Row, list[str]]]:
    """Run rows one after another, and return the lines that each printed; empty if it failed."""
    shown = []
    for row in rows:
        # the folder keeps the lines, so that another start runs only the rows that failed
        digest = hashlib.sha256(json.dumps(row).encode()).hexdigest()
        result = folder / "shown" / f"{digest}.json"

        start = time.monotonic()
        code = 0
        text = ""
        if not result.exists():
            code, text = run_command(row.run, folder)
            if code == 0 and (lines := find_lines(row.shows, text)):
                result.write_text(json.dumps(lines))
        shown.append((row, json.loads(result.read_text()) if result.exists() else []))
        verdict = (
            "ok"
            if result.exists()
            else f"FAILED with code {code}; expected: {row.shows}\n  {row.run}\n{text}"
        )
        sys.stdout.write(
            f"{time.monotonic() - start:5.1f} s  {row.topic}: {row.taught}: {verdict}\n"
        )
    return shown


def write_page(content: Mapping[str, Any], shown: Mapping[Row, list[str]]) -> str:
    """Return the page as Markdown."""

    def code(text: str, longest: int = 120) -> str:
        fence = ("`` ", " ``") if "`" in text else ("`", "`")
        return (
            (text if len(text) <= longest else f"{text[:longest]} …")
            .join(fence)
            .replace("|", "\\|")
        )

    parts = [
        content["head"].format(rows=len(shown)),
        "```text\n" + "\n".join(content["prepare"]) + "\n```",
    ]
    for topic in content["topics"]:
        lines = ["| taught | command | prints |", "|---|---|---|"]
        for row, printed in shown.items():
            if row.topic == topic:
                link = f"[in full](textbook.md#{row.example})"
                cell = link if row.example else "<br>".join(map(code, printed))
                lines.append(f"| {row.taught} | {code(row.run, len(row.run))} | {cell} |")
        parts += [f"## {topic}", "\n".join(lines)]
    return "\n\n".join([*parts, content["left_out"].rstrip()]) + "\n"


def main() -> int:
    """Run the rows, two topics at a time; return 1 if a row failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run the rows of this topic, without writing the page")
    parser.add_argument(
        "--folder", type=Path, help="keep all files here; another start runs the rows that failed"
    )
    options = parser.parse_args()

    content = yaml.safe_load((_DOCS / "rows.yaml").read_text(encoding="utf-8"))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="rows-"))
    if not (folder / "shown").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_files(content["files"], folder)
        for command in content["prepare"]:
            if (done := run_command(command, folder))[0]:
                sys.exit(f"code {done[0]}: {command}\n{done[1]}")
        (folder / "shown").mkdir()

    rows = read_rows(content)
    topics = [topic for topic in content["topics"] if options.only in (None, topic)]
    by_topic = [list(filter(lambda row: row.topic == topic, rows)) for topic in topics]
    with ThreadPoolExecutor(2) as pool:
        shown = dict(
            itertools.chain.from_iterable(pool.map(lambda rows: run_rows(rows, folder), by_topic))
        )

    failed = [f"  {row.topic}: {row.taught}\n" for row, lines in shown.items() if not lines]
    sys.stdout.write(f"{len(shown)} rows in {folder}, {len(failed)} failed\n{''.join(failed)}")
    if not failed and options.only is None:
        (_DOCS / "rows.md").write_text(write_page(content, shown), encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
