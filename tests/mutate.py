"""Measure what the tests see: draw small faults of the product, and run the tests that could know
each of them.

    python -m tests.mutate draw --count 400 --seed 1    # write tests/data/mutants.json
    python -m tests.mutate run --workers 2              # note for each mutant which test file kills it
    python -m tests.mutate table                        # killed of drawn, by part

A mutant is a line of a file and its replacement, so that it is found again when lines move; it is
gone with its line. Its tests are the file at its path, those that import its module, the folder of
that file, and the tests of the files that import the module, until one fails.
"""

import argparse
import ast
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from tests.touched import find_tests

ROOT: Final = Path(__file__).parents[1]
DRAWN: Final = ROOT / "tests" / "data" / "mutants.json"
PARTS: Final = ("clozeline", "pipeline", "model", "train", "tools", "extensions")
COMPARISONS: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: Final = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SECONDS: Final = 120
"""Limit of a group of test files, and 20 more for each; a mutant that hangs is killed."""
LIBRARIES: Final = ["numpy", "pyarrow", "pytest", "torch", "transformers"]
"""Loaded once: the process of each group of tests is forked from one that has them, and loads the
changed product."""


def find_faults(source: str) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield kind, node and replacement of each fault on one line.

    Not in messages, annotations and docstrings.
    """
    tree = ast.parse(source)
    told = [node for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.JoinedStr)]
    told += [
        node.annotation
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation
    ]

    told += [
        node.returns
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.returns
    ]

    skipped = {id(inner) for node in told for inner in ast.walk(node)}

    for node in ast.walk(tree):
        if (
            id(node) in skipped
            or not isinstance(node, ast.expr | ast.stmt)
            or node.lineno != node.end_lineno
        ):
            continue

        for kind, changed in _changes(node):
            if (new := ast.unparse(changed)) != ast.unparse(node):
                yield kind, node, new


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield "comparison", ast.Compare(left, [COMPARISONS[type(op)]()], [right])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not isinstance(
            left, ast.Constant
        ):
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.BoolOp(op=op, values=values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", operand
        case ast.Call(func=func, args=[first, second, *more], keywords=keywords) if not isinstance(
            second, ast.Starred
        ):
            yield "argument", ast.Call(func, [second, first, *more], keywords)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "statement", ast.Pass()
        case ast.IfExp(test=test, body=body, orelse=other):
            yield "boolean", ast.IfExp(ast.UnaryOp(ast.Not(), test), body, other)


def draw(count: int, seed: int) -> list[dict[str, Any]]:
    """Draw mutants: each part by its lines, each kind of fault equally often within a part."""
    listed = subprocess.run(
        ["git", "ls-files", *PARTS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = [name for name in listed.splitlines() if name.endswith(".py")]
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    lines = Counter(
        {
            part: sum(sources[f].count("\n") for f in files if f.startswith(f"{part}/"))
            for part in PARTS
        }
    )

    chooser = random.Random(seed)
    mutants = []

    for part in PARTS:
        by_kind: dict[str, list[dict[str, Any]]] = {}

        for name in (name for name in files if name.startswith(f"{part}/")):
            rows = sources[name].splitlines()

            for kind, node, new in find_faults(sources[name]):
                row = rows[node.lineno - 1].encode()  # columns of ast count bytes
                changed = (
                    row[: node.col_offset] + new.encode() + row[node.end_col_offset :]
                ).decode()
                here = {
                    "file": name,
                    "line": node.lineno,
                    "before": row.decode(),
                    "after": changed,
                }
                by_kind.setdefault(kind, []).append({"kind": kind, **here})

        share = round(count * lines[part] / lines.total())
        kinds = sorted(by_kind)
        mutants += [chooser.choice(by_kind[kinds[number % len(kinds)]]) for number in range(share)]

    return mutants


def locate(tree: Path, mutant: dict[str, Any]) -> tuple[Path, int] | None:
    """Return the file and line index of a mutant: the equal line that is nearest to where it was.

    None: it is gone.
    """
    path = tree / mutant["file"]
    if not path.is_file():
        return None
    rows = path.read_text(encoding="utf-8").splitlines()
    equal = [index for index, row in enumerate(rows) if row.strip() == mutant["before"].strip()]
    return (path, min(equal, key=lambda index: abs(index + 1 - mutant["line"]))) if equal else None


def run_tests(tree: Path, files: list[str]) -> bool:
    """Return whether test files fail, in a tree of their own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    process = context.Process(target=_run_pytest, args=(str(tree), files))
    process.start()
    process.join(SECONDS + 20 * len(files))
    if process.exitcode is None and process.pid:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()

    return process.exitcode not in (0, 5)  # 5: no test in them


def _run_pytest(tree: str, files: list[str]) -> None:
    """Run tests of a tree in this process, which becomes the leader of what they start."""
    os.setsid()
    os.chdir(tree)
    sys.path.insert(0, tree)
    os.environ.update({"PYTHONPATH": tree, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"})
    sink = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(sink, descriptor)
    import pytest  # not in the parent: the one that has the libraries

    status = int(pytest.main(["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", *files]))
    os._exit(status)  # threads of the product may wait for nothing


def judge(tree: Path, mutant: dict[str, Any]) -> dict[str, Any]:
    """Apply a mutant to a tree, run its tests, take it back.

    Note the group of tests that kills it.
    """
    if (where := locate(tree, mutant)) is None:
        return {**mutant, "killed": "gone"}
    path, index = where
    source = path.read_text(encoding="utf-8")
    rows = source.splitlines(keepends=True)
    indent = rows[index][: len(rows[index]) - len(rows[index].lstrip())]
    rows[index] = f"{indent}{mutant['after'].strip()}\n"
    rewrite(path, "".join(rows))

    try:
        groups = zip(
            ("own", "importers", "folder", "users"), find_tests(tree, mutant["file"]), strict=True
        )
        killer = next((name for name, files in groups if files and run_tests(tree, files)), None)
    finally:
        rewrite(path, source)

    return {**mutant, "killed": killer}


def rewrite(path: Path, source: str) -> None:
    """Write a module so that Python compiles it again: a time in whole seconds and a size tell it
    whether it must."""
    before = path.stat().st_mtime
    path.write_text(source, encoding="utf-8")
    os.utime(path, (before + 1, before + 1))


def run(workers: int) -> None:
    """Judge the mutants that have no verdict yet, each worker in a copy of the tracked files."""
    mutants = json.loads(DRAWN.read_text())
    open_ones = [index for index, mutant in enumerate(mutants) if "killed" not in mutant]

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()

        for number in range(workers):
            tree = Path(folder, str(number))
            subprocess.run(
                ["git", "worktree", "add", "-q", "--detach", str(tree)], cwd=ROOT, check=True
            )
            for library in (ROOT / "clozeline" / "native").glob("*.so"):
                shutil.copy(library, tree / "clozeline" / "native")
            trees.put(tree)

        def work(index: int) -> None:
            tree = trees.get()
            mutants[index] = judge(tree, mutants[index])
            trees.put(tree)
            DRAWN.write_text(json.dumps(mutants, indent=1) + "\n")

        list(pool.map(work, open_ones))

    subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)


def table() -> str:
    """Return killed of judged mutants, by part, and the survivors, each with why it changes nothing
    or as open."""
    mutants = json.loads(DRAWN.read_text())
    judged = [mutant for mutant in mutants if mutant.get("killed", "gone") != "gone"]
    lines = []

    for part in PARTS:
        here = [mutant for mutant in judged if mutant["file"].startswith(f"{part}/")]
        lines.append(
            f"{part:10} {sum(mutant['killed'] is not None for mutant in here):4} of {len(here):4}"
        )

    left = [mutant for mutant in judged if mutant["killed"] is None]
    survivors = [
        f"{m['file']}:{m['line']}: {m['after'].strip()}  # {m.get('equivalent', 'open')}"
        for m in left
    ]
    return "\n".join([*lines, "", *survivors, ""])


def main() -> int:
    """Draw, run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["draw", "run", "table"])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.what == "draw":
        DRAWN.write_text(json.dumps(draw(arguments.count, arguments.seed), indent=1) + "\n")
    elif arguments.what == "run":
        run(arguments.workers)

    sys.stdout.write(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
