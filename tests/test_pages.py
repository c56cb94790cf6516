"""Pages that cannot go stale: what they name exists, figures have a source, and the reading path is
short."""

import ast
import re
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from tests.test_docs import PAGES

ROOT = Path(__file__).parents[1]
PACKAGES = ("clozeline", "pipeline", "train", "model", "tools", "extensions")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
each = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each
def test_links_and_paths_lead_to_files_and_headings(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if not target.startswith("http"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"

    if page.parent.name != "decisions":
        names = re.findall(
            r"`((?:clozeline|pipeline|model|train|tools|extensions|tests|configs|docs)/[\w./-]+)`",
            text,
        )
        assert not [name for name in names if not (ROOT / name).exists()]


def test_pages_that_code_and_configurations_name_exist():
    folders = (*PACKAGES, "configs", "benchmarks")
    files = [path for name in folders for path in (ROOT / name).rglob("*.*")]
    sources = [path for path in files if path.suffix in (".py", ".yaml", ".cpp", ".h")]
    named = {
        page
        for path in sources
        for page in re.findall(r"(?:docs|extensions)/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }

    assert named
    assert not [page for page in named if not (ROOT / page).is_file()]


def test_a_document_becomes_a_gradient_within_12_files_and_2000_lines():
    """The first cell with code of the table in docs/how-it-works.md is a file, the next has the
    definitions to read."""
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| \d+ \| `([\w/.]+)` \| (.*?) \|", page, flags=re.MULTILINE)

    assert 8 <= len(steps) <= 12

    total = 0

    for file, cell in steps:
        source = (ROOT / file).read_text(encoding="utf-8")
        spans = dict(definitions(ast.parse(source).body, ""))
        names = re.findall(r"`([\w.]+)`", cell)
        total += sum(spans[name] for name in names) if names else len(source.splitlines())

    assert total <= 2000


def definitions(body, prefix):
    """Yield the name and the number of lines of each definition."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield prefix + node.name, node.end_lineno - node.lineno + 1
            yield from definitions(node.body, f"{prefix}{node.name}.")


# Imports
# --------------------------------------------------------------------------------------------------


def imported_modules(source):
    """Yield the modules and names that a program imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    "file",
    [*PAGES, *sorted((ROOT / "docs" / "mylab").rglob("*.py"))],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_pages_and_examples_import_public_modules_only(file):
    text = file.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    programs = [text] if file.suffix == ".py" else blocks
    names = [name for program in programs for name in imported_modules(program)]
    assert not [name for name in names if re.search(r"\._[a-z]", name)]


# Measured figures
# --------------------------------------------------------------------------------------------------

FEWEST = 4
"""Cells with decimals from which a table counts as measured; versions and example values are
fewer."""
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
COMMAND = re.compile(r"(?:`|^)(?:make|python|pytest|deepspeed|clozeline) [^`\n]+", re.MULTILINE)


def is_measured(table):
    """Return whether a table has figures with decimals, other than code, numbers of papers and
    factors of a symbol."""
    cells = [cell for row in table.splitlines()[2:] for cell in row.strip("|").split("|")]
    plain = [re.sub(r"`[^`]*`|arXiv \S+|\(\d{4}\.\d+\)|[\d.]+ P\b", "", cell) for cell in cells]
    return sum(bool(re.search(r"(?<![\w.])\d+\.\d+(?![\w.])", cell)) for cell in plain) >= FEWEST


def lacks(part):
    """Return what a part with a table of measured figures lacks of date and command."""
    tables = re.findall(r"(?:^\|.*\n)+", part, flags=re.MULTILINE)
    if not any(is_measured(table) for table in tables):
        return []
    return [
        name for name, pattern in (("date", DATE), ("command", COMMAND)) if not pattern.search(part)
    ]


@each
def test_tables_of_figures_have_a_date_and_a_command(page):
    if page not in PAGES[1:4]:
        parts = re.split(r"^(?=###? )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert {part.partition("\n")[0]: lacks(part) for part in parts if lacks(part)} == {}


# CONTRIBUTING.md and the Makefile
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_lists_the_folders_of_a_package(package):
    part = re.search(rf"^{package}/ .*\n((?: .*\n)*)", CONTRIBUTING, flags=re.MULTILINE)
    listed = dict(re.findall(r"^    (\w+)/ (.*)", part[1], flags=re.MULTILINE))
    folders = {
        path.parent.name
        for path in (ROOT / package).glob("*/__init__.py")
        if not path.parent.is_symlink()
    }

    assert sorted(listed) == sorted(folders)

    named = re.findall(r"(?<=\s)(\w+\.py)(?=\s)", part[1])

    assert not [name for name in named if not (ROOT / package / name).is_file()]

    for folder, line in listed.items():
        assert not [
            name
            for name in re.findall(r"(\w+)/", line)
            if not (ROOT / package / folder / name).is_dir()
        ]


def test_the_makefile_starts_modules_files_and_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    modules = {
        name for name in re.findall(r"python -m (\S+)", makefile) if name.startswith("tests.")
    }
    files = {f"{module.replace('.', '/')}.py" for module in modules} | set(
        re.findall(r"python (\S+\.py)", makefile)
    )

    assert files
    assert not [file for file in files if not (ROOT / file).is_file()]

    known = {name for group in commands().values() for name in group}

    assert set(re.findall(r"BIN\)/clozeline ([\w-]+)", makefile)) <= known
