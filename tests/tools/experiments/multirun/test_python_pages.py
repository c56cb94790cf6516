"""Pages of Python's documentation as a WARC."""

from warcio.archiveiterator import ArchiveIterator

from clozeline.tools.experiments.multirun.python_pages import module_names, write_warc


def test_pages_are_responses_whose_bytes_depend_on_nothing_else(tmp_path):
    pages = [("http://pydoc.example/a.html", "<p>é</p>"), ("http://pydoc.example/b.html", "<p>b</p>")]
    for name in ("one", "two"):
        write_warc(tmp_path / name, pages)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with (tmp_path / "one").open("rb") as file:
        found = [
            (one.rec_headers["WARC-Target-URI"], one.content_stream().read().decode()) for one in ArchiveIterator(file)
        ]
    assert found == pages


def test_modules_have_pages_but_for_tests_and_those_that_act_when_imported():
    names = {*module_names()}
    assert {"json", "json.decoder", "os"} <= names
    assert not {"this", "sys", "turtle"} & names
    assert not {"__main__", "test", "tests"} & {part for name in names for part in name.split(".")}
