"""Documentation that cannot go stale: every command in a code block is run, or parsed by what it
would start."""

import contextlib
import functools
import io
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import unittest.mock
from pathlib import Path

import pytest
import yaml

from clozeline.__main__ import commands as commands_of_clozeline
from clozeline.__main__ import main
from clozeline.configuration.config import config_file, load_config
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.model.registries import FAMILIES
from clozeline.pipeline.recipe import load_recipe
from clozeline.tools.start.new import main as new
from clozeline.train.configuration.config import TrainConfig
from docs.generate.rows import write_files
from tests.distributed import run_program
from tests.published.tables import NAMES as PUBLISHED
from tests.recipes import find_training

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "extensions").glob("*/*.md")),
]
LAUNCHER_OPTIONS = {"--num_accelerators": 1, "--master_port": 1, "--quiet": 0}
ONLY_PARSED = (
    r"git clone \S+ clozeline && cd clozeline",
    r"fasttext supervised .*",
    r"aws s3 cp \S.*",
    r"cp -r docs/mylab \.",
    r"cp -r data/web/train_tokenizer/tokenizer kept",
    r"lm_eval .*",  # of a program that is not a dependency
    r"pip install \./mylab",
    # of that package, which is installed and used in tests/clozeline/test_plugins.py
    r"clozeline (capitals|check|pipeline|train) .*\b(shouting|rar\w+|graded_tokens|one\.txt)\b.*",
    r'cp "\$\(clozeline where \S+\)" my\.yaml',
    r"clozeline where \S+",
    r"(parallel|seq) .*clozeline work .*",  # the tests of the executor run them
)
"""Commands that need another machine, or an installation; bash reads them, nothing runs them."""

ROWS = yaml.safe_load((ROOT / "docs" / "rows.yaml").read_text(encoding="utf-8"))
NOT_A_MODEL = ("baby", "demo", "small_languages", "tasks", "web")
"""Recipes that are not of one published model."""
DOWNLOADED = "model.init_from=downloads/bert"
BODY = [
    f"model.{key}"
    for key in ("family=encoder", "dim=8", "layers=1", "attention_heads=2", "ffn_dim=8")
]


def blocks(page):
    return re.findall(
        r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def commands():
    found = []

    for page in PAGES:
        for language, text in blocks(page):
            if language == "sh":
                lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
                found += [
                    (str(page.relative_to(ROOT)), line)
                    for line in lines
                    if line and not line.startswith("#")
                ]

    return found


@functools.cache
def help_of(*words):
    """Return the help of a subcommand.

    The trainer, which skips the interpreter's end, runs in a process.
    """
    if words == ("train",):
        command = [sys.executable, "-m", "clozeline", "train", "--help"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    printed = io.StringIO()

    with (
        unittest.mock.patch.object(sys, "argv", ["clozeline", *words, "--help"]),
        contextlib.redirect_stdout(printed),
    ):
        try:
            code = main()
        except SystemExit as end:
            code = end.code

    assert code == 0, printed.getvalue()

    return printed.getvalue()


@functools.cache
def help_of_script(file):
    """Return the help of a file that is started with python."""
    printed = io.StringIO()

    with (
        unittest.mock.patch.object(sys, "argv", [file, "--help"]),
        contextlib.redirect_stdout(printed),
        pytest.raises(SystemExit, match=r"^0$"),
    ):
        runpy.run_path(str(ROOT / file), run_name="__main__")

    return printed.getvalue()


def check_options(help_text, words):
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{re.escape(word)}\b", help_text), (
                f"{word} is not an option of this command"
            )


@functools.cache
def files_of_new():
    """Return a folder `mine` as the README makes it."""
    folder = Path(tempfile.mkdtemp()) / "mine"
    new([str(folder), f"input={ROOT / 'docs' / 'decisions'}", "language=en", "model=bert"])
    return folder


def split_config(words, kind):
    """The file that --config names, and the overrides.

    `my.yaml` is the reader's copy of the demo's recipe.
    """
    place = words.index("--config")
    named = words[place + 1]
    if named.startswith("mine/"):
        path = files_of_new() / named.removeprefix("mine/")
    else:
        path = ROOT / config_file("recipe:demo" if named == "my.yaml" else named, kind)

    return path, [word for word in words[place + 2 :] if "=" in word]


def check_training(words):
    check_options(help_of("train"), words[words.index("train/main.py") :])

    if "--config" in words:
        path, overrides = split_config(words, "train.yaml")
        # A model that a reader has downloaded is not here, and its configuration would come from
        # it.
        absent = ("model=null", DOWNLOADED)
        body = BODY if any(word.startswith("model.init_from=") for word in overrides) else []
        load_config(
            TrainConfig,
            path,
            [
                *(word for word in overrides if word not in absent),
                *body,
            ],
        )


def check_launcher(words):
    position = 1
    while words[position] != "train/main.py":
        position += 1 + LAUNCHER_OPTIONS[words[position]]
    check_training(words)


def check_benchmark(words):
    """`python -m benchmarks.NAME`, from the root of the checkout."""
    check_options(help_of_script(f"{words[2].replace('.', '/')}.py"), words[3:])


def check_clozeline(words):
    """A subcommand has the options, and takes the configuration."""
    known = {
        name: command
        for group in commands_of_clozeline().values()
        for name, command in group.items()
    }

    command = known[words[1].replace("_", "-")]
    if command.module == "clozeline.train.main":
        check_training(["python", "train/main.py", *words[2:]])
        return

    check_options(help_of(words[1]), words[2:])
    if "--config" in words and command.module.endswith(".recipe_command"):
        path, overrides = split_config(words, "pipeline.yaml")
        load_recipe(path, overrides)


def check_make(words):
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert {word for word in words[1:] if "=" not in word} <= set(targets)


CHECKS = {
    r"deepspeed ": check_launcher,
    r"python -m benchmarks\.[\w.]+ ": check_benchmark,
    r"clozeline [a-z]": check_clozeline,
    r"make ": check_make,
}


@pytest.mark.parametrize(("page", "command"), commands())
def test_command(page, command):
    plain = re.sub(r"(srun (--\S+ )*)?\.venv/bin/", "", command)
    if any(re.fullmatch(pattern, plain) for pattern in ONLY_PARSED):
        return
    for pattern, check in CHECKS.items():
        if re.match(pattern, plain + " "):
            check(shlex.split(plain, comments=True))
            return

    pytest.fail(f"{page}: no check for this command, add one: {command}")


@pytest.mark.parametrize("topic", ROWS["topics"])
def test_rows_of_textbooks_are_commands_with_known_keys(topic, tmp_path, monkeypatch):
    write_files(ROWS["files"], tmp_path)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    known = {name for group in commands_of_clozeline().values() for name in group}

    for row in ROWS["topics"][topic].values():
        assert re.compile(row["shows"])
        for command in re.findall(r"(?<!\$\()\bclozeline .*?(?= && |\)? \| |; |$)", row["run"]):
            words = shlex.split(command)
            assert words[1] in known, command
            if "--config" in words:
                check_clozeline(words)


def run_python_blocks(page, chain):
    """Run a page of docs/, block after block, as a reader would paste it, next to a folder
    `data/site`; return the lines that it prints."""
    program = "\n".join(
        text for language, text in blocks(ROOT / "docs" / page) if language == "python"
    )
    done = run_program(program, chain.output.parents[1])

    assert done.codes == [0], done.errors

    return done.outputs[0].splitlines()


def test_python_blocks_read_shard_sets(chain):
    lines = run_python_blocks("shard-sets.md", chain)
    examples, _, manifest, *_ = lines[0].split()

    assert examples == manifest != "0"
    assert "True True" in lines, "a block by its byte range"
    assert len(lines) >= 4


def test_python_blocks_read_documents_and_positions(chain):
    documents, tables, position = run_python_blocks("formats.md", chain)

    assert "0" not in (documents.split()[0], tables.split()[0])
    assert position.split()[0] == "24"


def test_the_readme_shows_what_its_command_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shows = r"^(clozeline show [^\n]*)\n```\n\n```text\n(.*?)^```$"
    [(command, shown)] = re.findall(shows, text, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            *shlex.split(command),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [line.rstrip() for line in done.stdout.splitlines()]

    assert set(shown.splitlines()) <= set(printed), done.stdout


def models_of_the_page():
    """Cells of docs/models.md: model, family, architecture, heads, recipe, sizes, classes.

    A dash is empty.
    """
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    table = page.partition("| model | family |")[2].partition("\n\n")[0]
    return [
        [cell.strip().replace("–", "") for cell in line.strip("|").split(" | ")]
        for line in table.splitlines()[2:]
    ]


@pytest.mark.parametrize("cells", models_of_the_page(), ids=lambda cells: cells[0])
def test_a_model_of_the_page_is_what_its_files_say(cells):
    from clozeline.extensions.published.conversion.type_selection import load_map

    _, family, architecture, heads, recipe, sizes, classes = cells
    configurations = [read_size(size) for size in sizes.split(", ") if size]
    if recipe:
        configurations.append(find_training(recipe).keys["model"])
    found = {head for configuration in configurations for head in configuration["heads"]}
    families = {configuration["family"] for configuration in configurations}

    if classes:
        key_map = load_map(classes.split("`")[1])
        found |= {head for one in key_map.classes.with_heads for head in one.heads}
        families.add(key_map.configuration.fixed["family"])
        with_heads = ", ".join(one.name for one in key_map.classes.with_heads)

        assert classes == f"`{key_map.model_type}`: {with_heads}" + (
            f"; {key_map.classes.body_class}" if key_map.classes.body_class else ""
        )

    assert families == {family}
    assert FAMILIES.load_class(family).architecture == architecture
    assert set(heads.split(", ")) == found


def test_every_file_of_a_model_is_in_one_row_of_the_page():
    from clozeline.extensions.published.registries import MODEL_TYPES

    rows = models_of_the_page()
    recipes, sizes, classes = ([row[column] for row in rows if row[column]] for column in (4, 5, 6))

    assert sorted([*recipes, *NOT_A_MODEL, *PUBLISHED]) == sorted(
        path.name for path in (CONFIGS / "recipes").iterdir()
    )
    assert sorted(", ".join(sizes).split(", ")) == sorted(all_sizes())
    assert sorted(cell.split("`")[1] for cell in classes) == MODEL_TYPES.available()
    assert {row[1] for row in rows} == set(FAMILIES.available())
