"""`clean.normalize`: code compiles and patches apply after cleaning, and what is changed is
counted."""

import ast
import json
import random
import subprocess
import sysconfig
import warnings
from pathlib import Path

import pytest

from clozeline.pipeline.ingest.documents.files import read_documents
from tests.pipeline.clean.cleaning import LENIENT, run_clean

CODE = {**LENIENT, "normalize": "code"}
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
PATCHED = [
    "    def a(self):",
    "",
    "",
    "",
    '        return """x   ',
    "",
    "",
    '"""',
    "\f",
    "e\u0301 \u212b",
    "\tend  ",
    "",
]


def read_modules(count):
    """Return modules of the standard library as bytes, tests with odd encodings and literals among
    them."""
    names = sorted(path for path in LIBRARY.rglob("*.py") if path.stat().st_size < 60_000)
    names = [path for path in names if "site-packages" not in path.parts]
    return [path.read_bytes() for path in random.Random(1).sample(names, count)]


def parse(source):
    """Return the syntax tree of a module as text; None if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.dump(ast.parse(source))
        except (SyntaxError, ValueError):
            return None


def test_python_means_the_same_after_cleaning(tmp_path):
    """With the stored form of prose, indents, empty lines and accents of literals were gone."""
    folder = tmp_path / "code"
    folder.mkdir()
    wanted = {}

    for number, source in enumerate(read_modules(60)):
        (folder / f"{number:03}.py").write_bytes(source)
        try:
            source.decode("utf-8")
        except UnicodeDecodeError:
            continue  # another encoding is guessed, and its declaration is a comment
        wanted[f"default/{number:03}.py"] = parse(source)

    done = run_clean({"path": str(folder), "reader": "text"}, tmp_path / "out", CODE)
    found = {document.source: parse(document.text) for document in done.documents}

    assert sum(tree is not None for tree in wanted.values()) > 40

    different = [
        name
        for name, tree in wanted.items()
        if tree is not None and name in found and found[name] != tree
    ]

    assert different == []

    missing = wanted.keys() - found.keys()

    assert all((folder / name.removeprefix("default/")).stat().st_size == 0 for name in missing)


def run_git(folder, *words, **more):
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false"]
    return subprocess.run(
        ["git", *own, *words], cwd=folder, check=True, capture_output=True, **more
    ).stdout


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_patch_applies_after_cleaning(tmp_path, line_end):
    folder = tmp_path / "repository"
    patches = tmp_path / "patches"
    folder.mkdir()
    patches.mkdir()
    file = folder / "file.py"
    run_git(folder, "init", "-q")
    draw = random.Random(2)
    lines = list(PATCHED * 3)
    versions = []

    for number in range(12):
        file.write_bytes(line_end.join(lines).encode())
        versions.append(file.read_bytes())
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-q", "-m", f"Version {number}")
        if number:
            (patches / f"{number:02}.patch").write_bytes(run_git(folder, "diff", "HEAD~1", "HEAD"))
        at = draw.randrange(len(lines))
        lines[at:at] = [f"    change_{number}()  "]
        del lines[draw.randrange(len(lines))]

    done = run_clean({"path": str(patches), "reader": "text"}, tmp_path / "out", CODE)

    assert [document.source for document in done.documents] == [
        f"default/{n:02}.patch" for n in range(1, 12)
    ]
    assert done.nonzero("normalized") == {}

    file.write_bytes(versions[0])
    for document, version in zip(done.documents, versions[1:], strict=True):
        run_git(folder, "apply", "--whitespace=nowarn", input=document.text.encode())
        assert file.read_bytes() == version


def test_a_source_has_a_form_of_its_own_and_its_text_is_no_blank(tmp_path):
    texts = ["  a  ", " \n\f\n ", "\n\n\nb"]
    for name in ("code", "prose"):
        rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(rows)

    source = [
        {"path": str(tmp_path / f"{name}.jsonl"), "source": name} for name in ("code", "prose")
    ]
    done = run_clean(
        source, tmp_path / "out", {**LENIENT, "sources": {"code": {"normalize": "code"}}}
    )

    assert [document.text for document in done.documents] == ["  a  ", "\n\n\nb", "a", "b"]
    assert done.nonzero("normalized") == {"blanks_around_text": 6, "blank_lines": 1}
    assert "6 characters changed: blanks_around_text" in str([*done.summary.row.remarks()])


def test_a_recipe_of_books(tmp_path):
    """The parts of a word meet again across a page, and what is removed is counted by filter."""
    page = "\n".join(
        f"a line of the book, number {word}"
        for word in ("one", "two", "three", "four", "five", "six")
    )
    pages = "".join(f"{page}\nan exam-\n\n{number}\n\nple of it\n" for number in range(1, 7))
    frame = "*** {} OF THE PROJECT GUTENBERG EBOOK A BOOK ***"
    book = f"Title: A Book\n\n{frame.format('START')}\n\n{pages}\n{frame.format('END')}\n\nLICENSE"
    (tmp_path / "book.txt").write_text(book)
    books = {**LENIENT, "filters": ["gutenberg", "page_numbers", "dehyphenate"]}
    done = run_clean(str(tmp_path / "book.txt"), tmp_path / "books", books)

    assert [document.text for document in done.documents] == [
        "\n".join([f"{page}\nan example\nof it"] * 6)
    ]
    assert set(done.nonzero("edits")) == {
        "gutenberg.frame",
        "page_numbers.page_numbers",
        "dehyphenate.hyphens",
    }


def test_lines_of_code_keep_their_form_after_dedup(tmp_path):
    """What `dedup.lines` leaves of a text has the stored form of its source.

    It was that of prose.
    """
    texts = [
        f"    def f{name}(x):\n        return x\n\n\n\n    LICENSE of all\n    y = {name!r}  \n# "
        f"{name}"
        for name in "abc"
    ]
    for name in ("code", "prose"):
        rows = "".join(json.dumps({"text": f"{text} of {name}"}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(rows)

    source = [
        {"path": str(tmp_path / f"{name}.jsonl"), "source": name} for name in ("code", "prose")
    ]
    clean = {**LENIENT, "sources": {"code": {"normalize": "code"}}}
    dedup = {"exact": None, "near": None, "lines": {"max_documents": 2, "within": "source"}}
    run_clean(source, tmp_path / "out", clean, dedup=dedup)
    files = sorted((tmp_path / "out" / "dedup" / "documents").glob("*.arrow"))
    left = [document.text for file in files for document in read_documents(file)]

    assert [text for text in left if "of code" in text] == [
        f"    def f{name}(x):\n\n\n\n    y = {name!r}  \n# {name} of code" for name in "abc"
    ]
    assert (
        next(text for text in left if "of prose" in text)
        == "def fa(x):\n\n    y = 'a'\n# a of prose"
    )
