"""A run that leaves documents out equals one whose inputs never had them."""

import json

import pytest

from clozeline.pipeline.clean.exclusion import Exclusion
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.miniature import text
from tests.refusals import refused

HOSTS = ("one.example", "bücher.example", "two.example", "shop.three.example")
TEXTS = [
    text(number, 6) if number != 20 else "only seven words are here, my friend"
    for number in range(36)
]
UID = {6}
URL = {8}
HOST = set(range(1, 36, 4))
PARENT = set(range(3, 36, 4))
REJECTED = {20}
WITHOUT = UID | URL | HOST | PARENT | REJECTED


def write_inputs(folder, *, without=False):
    """Write a crawl and three other files.

    What is left out is blank lines of the same length, so that offsets stay.
    """
    rows = [
        {"text": row, "url": f"http://{HOSTS[number % 4]}/{number}"}
        for number, row in enumerate(TEXTS)
    ]
    lines = [json.dumps(row) for row in rows]
    files = {
        "web/crawl.jsonl": [
            " " * len(line) if without and number in WITHOUT else line
            for number, line in enumerate(lines)
        ]
    }
    # the last file holds a copy of document 8, which nobody names
    for name, count in (("books/a.jsonl", 3), ("files/b.jsonl", 4), ("files/kept.jsonl", 9)):
        more = [json.dumps({"text": row}) for row in TEXTS[:count]]
        files[name] = [" " * len(line) for line in more] if without and "kept" not in name else more

    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(content) + "\n")

    return [{"path": f"{folder}/{name}", "source": name} for name in ("web", "books", "files")]


def run(folder, inputs, exclude="", **executor):
    """Run the stage without what the file names."""
    folder.mkdir(exist_ok=True)
    clean = {
        "language": None,
        "filters": [{"name": "gopher_quality", "words": [10, 1000]}],
    }

    if exclude:
        clean["exclude"] = str(folder / "exclude.txt")
        (folder / "exclude.txt").write_bytes(
            exclude if isinstance(exclude, bytes) else exclude.encode()
        )

    return run_clean(inputs, folder / "out", clean, executor=executor)


def test_the_documents_are_those_of_a_run_that_never_had_the_others(tmp_path):
    inputs = write_inputs(tmp_path / "in")
    found = run(tmp_path / "run", inputs)
    uids = {document.url: document.uid.hex() for document in found.documents}
    exclude = (
        "\ufeff# taken "
        f"down\n\n{uids['http://two.example/6'].upper()}\nhttp://one.example/8\r\nxn--bcher-kva.example\nThree.Example.\n{found.rejects[0].uid.hex()}\nbooks\n{tmp_path}/in/files/b.jsonl\n"
    )
    mine = run(tmp_path / "run", inputs, exclude, workers=2)
    never = run(tmp_path / "never", write_inputs(tmp_path / "other", without=True))

    assert (mine.documents, mine.rejects) == (never.documents, never.rejects)
    assert len(never.documents) == 36 - len(WITHOUT) + 9
    assert mine.counts["excluded"]["excluded"] == len(WITHOUT)
    assert mine.counts["notes"]["excluded_file"] == 2
    assert "match nothing" not in str(list(mine.summary.row.remarks()))
    assert run(tmp_path / "run", inputs, exclude).summary.skipped
    assert not run(tmp_path / "run", inputs, "files\n").summary.skipped, (
        "the content of the file decides"
    )


def test_lines_that_match_nothing_are_counted_and_named(tmp_path):
    """A source is no host: the source `web` has no dot, and `example` alone names no domain."""
    exclude = f"{'0' * 32}\nhttp://one.example/nowhere\nexample\none.example\nweb.example\nfiles/b.jsonl\n"
    done = run(tmp_path, write_inputs(tmp_path / "in"), exclude)
    said = " ".join(list(done.summary.row.remarks()))

    assert "4 lines of exclude, which match nothing" in " ".join(said.split())
    assert all(
        each in said
        for each in ("0" * 32, "http://one.example/nowhere", "1 example,", "web.example")
    )
    assert done.counts["excluded"]["excluded"] == 9, "the documents of one.example"
    assert done.counts["excluded_by"] == {"4": 9, "6": 1}


def test_a_file_that_cannot_be_read_is_told_before_the_work(tmp_path):
    inputs = write_inputs(tmp_path / "in")
    with refused("expected UTF-8"):
        run(tmp_path, inputs, b"\xff\xfe\n")
    with refused(r"none: cannot be read"):
        run_clean(inputs, tmp_path / "out", {"exclude": str(tmp_path / "none")})

    assert not (tmp_path / "out/clean/documents").exists()


def write_rows(path, *urls):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            json.dumps({"text": f"Row {number}.", "url": url}) + "\n"
            for number, url in enumerate(urls)
        )
    )


ADDRESSES = (
    "https://a.example/Wiki/HTML",
    "https://a.example/wiki/html",
    "https://b.example/?Q=1",
    "https://b.example/?q=1",
    "http://BÜCHER.example/Ä",
    "https://c.example/#/inbox/1",
    "https://c.example/#/inbox/2",
)


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("https://a.example/Wiki/HTML", {0}),
        ("https://a.example/wiki/html", {1}),
        ("HTTPS://A.Example/wiki/html", {1}),
        ("https://a.example/WIKI/HTML", set()),
        ("https://b.example/?q=1", {3}),
        ("A.EXAMPLE", {0, 1}),
        ("http://xn--bcher-kva.example/Ä", {4}),
        ("Http://bücher.EXAMPLE/Ä", {4}),
        ("http://bücher.example/ä", set()),
        ("https://c.example/#/inbox/2", {6}),
    ],
)
def test_a_line_names_only_its_own_address(tmp_path, line, gone):
    """Paths and queries are case-sensitive, scheme and host are not."""
    write_rows(tmp_path / "a.jsonl", *ADDRESSES)
    done = run(tmp_path, str(tmp_path / "a.jsonl"), f"{line}\n")

    assert done.counts.get("excluded", {}).get("excluded", 0) == len(gone)

    left = {each.url for each in (*done.documents, *done.rejects)}

    assert left == {url for number, url in enumerate(ADDRESSES) if number not in gone}


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("SRC", {"SRC/A.jsonl"}),
        ("src", {"src/A.jsonl", "src/a.jsonl"}),
        ("a.jsonl", {"src/a.jsonl"}),
        ("A.jsonl", {"SRC/A.jsonl", "src/A.jsonl"}),
        ("src/A.jsonl", {"src/A.jsonl"}),
        ("Src", set()),
        ("FOLDER/one", {"SRC/A.jsonl"}),
        ("FOLDER/ONE", set()),
        ("FOLDER/two/A.JSONL", set()),
    ],
)
def test_a_line_names_only_its_own_source_file_or_folder(tmp_path, line, gone):
    write_rows(tmp_path / "one/A.jsonl", "https://a.example/1")
    write_rows(tmp_path / "two/A.jsonl", "https://a.example/2")
    write_rows(tmp_path / "two/a.jsonl", "https://a.example/3")
    inputs = [
        {"path": str(tmp_path / "one"), "source": "SRC"},
        {"path": str(tmp_path / "two"), "source": "src"},
    ]
    done = run(tmp_path, inputs, line.replace("FOLDER", str(tmp_path)) + "\n")
    left = {each.source for each in (*done.documents, *done.rejects)}

    assert {"SRC/A.jsonl", "src/A.jsonl", "src/a.jsonl"} - left == gone


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("one", {"two.jsonl"}),
        ("./one", {"two.jsonl"}),
        ("one/a.jsonl", {"two.jsonl"}),
        ("two.jsonl", {"a.jsonl"}),
        (".", set()),
        ("on", {"a.jsonl", "two.jsonl"}),
    ],
)
def test_a_line_names_a_path_from_the_folder_of_the_run(tmp_path, monkeypatch, line, left):
    """Also a name that could be a host."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "one/a.jsonl", "https://a.example/1")
    write_rows(tmp_path / "two.jsonl", "https://a.example/2")
    done = run(tmp_path, [{"path": "one"}, {"path": "two.jsonl"}], f"{line}\n")

    assert {each.source.rpartition("/")[2] for each in (*done.documents, *done.rejects)} == left


def test_lines_are_those_of_splitlines_and_a_wrong_byte_has_its_place_in_the_file(tmp_path):
    path = tmp_path / "exclude"
    text = "\ufeffa.org\r\n\r# no\x0bb.org\u2028 c.org \n\n" + "x.org\n" * 5000
    path.write_bytes(text.encode())
    lines = enumerate(text[1:].splitlines(), start=1)
    wanted = [(n, line.strip()) for n, line in lines if line.strip() and line[0] != "#"]

    assert [*Exclusion.open(path).lines()] == wanted

    path.write_bytes(b"a.org\n" * 5000 + b"\xff")
    with refused("expected UTF-8, got .*position 30000"):
        Exclusion.open(path)
