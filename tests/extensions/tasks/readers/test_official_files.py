"""Official files that are no tables: lines, and files of a folder."""

from clozeline.extensions.tasks.readers import Rejected
from clozeline.extensions.tasks.readers._official_files import open_folder, open_lines, texts_at
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers._rows import value_at
from tests.extensions.tasks.readers.reading import written
from tests.refusals import refused


def test_lines_that_are_parsed(tmp_path):
    def parse(line):
        return {"a": line[1:]} if line[0] == "+" else None

    path = written(tmp_path, b"+x\n-y\n\n\xff\n+z\n")
    found = list(open_lines(path, InputLimits(), "marked", "a plus", parse).rows())

    assert found == [
        (0, {"a": "x"}),
        (1, Rejected("fields", 1)),
        (2, Rejected("blank_line", 2)),
        (3, Rejected("bad_utf8", 3)),
        (4, {"a": "z"}),
    ]

    for text, message in (
        ("-y\n+x\n", "got '-y'"),
        ("", "got empty file"),
        ("\n+x\n", "got blank line"),
    ):
        with refused(f"line 1: expected a plus, {message}"):
            open_lines(written(tmp_path, text), InputLimits(), "marked", "a plus", parse)


def test_long_files_of_a_folder_are_rejected(tmp_path):
    paths = [
        written(tmp_path, text, name)
        for name, text in (("a.txt", "\ufefftext"), ("b.txt", "much longer text"))
    ]
    file = open_folder(
        paths[0],
        paths,
        InputLimits(record_bytes=8),
        "texts",
        lambda path, text: [{path.name: text}],
    )

    assert list(file.rows()) == [(0, {"a.txt": "text"}), (1, Rejected("too_large", 1))]


def test_fields_by_dotted_paths():
    row = {"a": {"b": ["x", "y"], "c": "z", "d": ["x", 1]}, "e.f": "g"}

    assert (value_at(row, "a.c"), value_at(row, "e.f")) == ("z", "g")
    assert value_at(row, "a.c.e") is value_at(row, "f") is None
    assert (texts_at(row, "a.b"), texts_at(row, "a.c"), texts_at(row, "a.d")) == (
        ("x", "y"),
        ("z",),
        (),
    )
