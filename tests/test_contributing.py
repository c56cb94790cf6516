"""Each row of the tables of CONTRIBUTING.md: its files are there, and a renamed copy keeps the
contract."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registries import ROOT, algorithms, registries
from tests.touched import own_tests

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLES = PAGE.partition("## Add an algorithm")[2].partition("### Randomness")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in re.findall(r"^\| .*\|$", TABLES, re.M)
]
ROWS = [row for row in ROWS if row[0] != "to add"]
PATH = re.compile(r"`((?:pipeline|model|train|tools|extensions|tests|configs|docs)/[\w./-]+)`")
NAMED = (
    "a model type: import and export of a `config.json`",
    "the rows of a head of labeled data: one of its two files",
    "a figure of a held-out set, for `early_stop`",
    "a published form of models",
)
"""Their copies need a `model_type` that transformers knows, a head whose name their columns have,
the keys of a small head, which its test file declares, and own tests of a form."""


def copied_file(row):
    """The algorithm that a row says to copy, if it is a file of a registry."""
    files = (path for package in registries() for path in algorithms(package).values())
    known = {path.relative_to(ROOT).as_posix() for path in files}
    return next((path for path in PATH.findall(row[1]) if path in known), None)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_files_of_a_row_are_there(row):
    paths = PATH.findall(" ".join(row))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []

    texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths if "." in path]
    names = re.findall(r"`(_?[A-Z]\w+|[a-z]+_[a-z_]+)`", " ".join(row[1:]))
    lacking = [name for name in names if texts and not any(name in text for text in texts)]
    assert lacking == []


def rename(source, stem):
    """Source text with the class of an algorithm renamed."""
    compact = stem.replace("_", "")
    kinds = re.findall(r"^class (\w+)", source, re.M)
    kind = next((word for word in kinds if word.lower().startswith(compact)), kinds[0])
    return re.sub(rf"\b{kind}\b", "Copied" + kind, source)


def copy_tree(folder):
    """Copy every tracked file, and track the copies: test files are found among those."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in (*filter(None, tracked.split("\0")), "clozeline/native/libnative.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)


COPIES = {
    "a command": ("tools/shards/shard_stats.py", "tools/shards/copied_stats.py", {}),
    "a stage of an extension": (
        "docs/mylab/mylab/word_counts",
        "extensions/curation/copied",
        {"WordCounts": "Copied", "word_counts": "copied"},
    ),
    "a type of duplicates": (
        "extensions/curation/keys/dedup/lines.py",
        "extensions/curation/keys/dedup/copied.py",
        {"LinesConfig": "CopiedConfig"},
    ),
}
"""Rows with a file or folder to copy that is not of a registry with contracts: what is renamed."""
SCAFFOLDS = {
    "a stage of an extension": [
        ("tests/pipeline/miniature.py", "balance: {alpha", "copied: {}\n"),
        ("tests/pipeline/test_stage_counts.py", '    "group": "sets', '    "copied": "words",\n'),
    ],
    "a type of duplicates": [
        ("extensions/curation/README.md", "# Curation", "`dedup.copied` drops nothing.\n\n"),
    ],
    "a feature of a layer": [
        (
            "model/configuration/model_config.py",
            "    emb_scale: bool",
            '    copied: bool = False\n    """nothing"""\n',
        ),
        ("model/layers/vocabulary.py", "config.emb_scale else 1.0", "config.copied or "),
        ("tests/keys/model_cases.py", '    "emb_scale": [', '    "copied": [True],\n'),
    ],
    "a column type": [("clozeline/columns.py", '"float32"]\n    role', '"float16", ')],
    "a metric of a task": [
        (
            "extensions/tasks/task_heads/_metrics.py",
            '    "f1": Metric(',
            '    "copied": Metric(positive_f1),\n',
        )
    ],
    "a command": [
        (
            "tests/clozeline/command_lines.txt",
            "shard-stats corpus1",
            "copied-stats corpus1/corrupt/masked_lm/train\n",
        ),
        ("docs/reports.md", "# Reports", "`clozeline copied-stats SET`\n\n"),
    ],
    "a key of the trainer": [
        (
            "train/configuration/config.py",
            "    activation_checkpointing:",
            '    copied: MayChange[bool] = False\n    """nothing"""\n',
        ),
        ("tests/keys/train_cases.py", '    "collective_timeout_s"', '    "copied": SPEED,\n'),
    ],
    "a codec of shards": [("pipeline/block_options.py", '"zstd"]', '"lz4", ')],
    "a kind of position": [
        (
            "model/layers/position.py",
            '        case "t5":',
            '        case "copied":\n            return Learned(config.embedding_width, 99, 0)\n',
        ),
        ("model/configuration/position.py", '"t5", "none"]', '"copied", '),
        ("model/configuration/position.py", '        "none": (', '        "copied": (),\n'),
        ("tests/keys/model_cases.py", '"t5", "none"]', '"copied", '),
    ],
}
"""Rows without a file to copy: in its files, a place, and what is written before it."""


def copy_renamed(folder, source, target, words):
    """Copy a file, or those of a folder, with other words in them."""
    files = [*(ROOT / source).glob("*.py")] or [ROOT / source]
    for file in files:
        text = file.read_text(encoding="utf-8")
        for old, new in words.items():
            text = text.replace(old, new)
        path = folder / target / file.relative_to(ROOT / source)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", SCAFFOLDS)
def test_what_a_row_names_is_all_that_its_tests_need(name, tmp_path):
    (row,) = (row for row in ROWS if row[0] == name)
    copy_tree(tmp_path)
    if name in COPIES:
        copy_renamed(tmp_path, *COPIES[name])
    for file, place, added in SCAFFOLDS[name]:
        assert file in row[1] or Path(file).parent.name in row[1]
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count(place) == 1
        (tmp_path / file).write_text(text.replace(place, added + place), encoding="utf-8")
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    tests = [path for path in PATH.findall(row[-1]) if path.startswith("tests")]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", "-x", *tests],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_a_renamed_copy_of_each_row_keeps_the_contract(tmp_path):
    copy_tree(tmp_path)
    names = []

    for path in filter(
        None, map(copied_file, (row for row in ROWS if row[0] not in {*NAMED, *COPIES}))
    ):
        file = tmp_path / path
        new = f"copied_{file.stem}"
        file.with_name(f"{new}.py").write_text(rename(file.read_text(encoding="utf-8"), file.stem))
        tests = tmp_path / own_tests(file.relative_to(tmp_path))
        if tests.exists():
            tests.with_name(f"test_{new}.py").write_text(tests.read_text(encoding="utf-8"))
        names.append(f"{file.parent.relative_to(tmp_path)}/{new}")
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    run = [sys.executable, "-m"]
    subprocess.run([*run, "tests.pipeline.corrupt.objectives.golden"], cwd=tmp_path, check=True)
    subprocess.run(
        [*run, "tests.pipeline.group.groupings.test_grouping_bytes"], cwd=tmp_path, check=True
    )
    # not the own tests of what was copied
    contracts = [
        *names,
        "-m",
        "algorithm and not slow and not data",
    ]

    done = subprocess.run(
        [*run, "tests.try_one", *contracts],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, (
        re.findall(r"^(?:FAILED|ERROR|E  ) .*", done.stdout, re.M) or done.stderr[-2000:]
    )

    cases = re.findall(r"(\d+) of contracts of (\w+)", done.stdout)

    assert len(cases) == len(names)
    assert [name for count, name in cases if count == "0"] == []
