import os
import re
import subprocess
import sys

import pytest
from warcio.archiveiterator import ArchiveIterator

from clozeline.tools.experiments.multirun.python_pages import module_names

MODULE = "clozeline.tools.experiments.multirun.python_pages"
WRITE = (
    f"import sys; from pathlib import Path; import {MODULE} as s; s.topics = {{'while': 'a & b'}};"
    "s.module_names = lambda: ('ctypes', 'keyword', 'nothing_there', 'tokenize', 'weakref');"
    "s.write_warc(Path(sys.argv[1]), s.render_pages())"
)


def test_modules_are_listed_by_their_files():
    before = set(sys.modules)
    names = set(module_names())
    assert not set(sys.modules) - before
    assert len(names) >= 300
    assert {"json", "json.decoder", "email.mime.text", "xml.dom.minidom"} <= names
    assert not names & {"antigravity", "this", "tkinter", "turtle", "sys", "json.__main__", "unittest.__main__"}


@pytest.mark.slow
def test_every_process_writes_the_same_bytes(tmp_path):
    """Sets, addresses and handles differ from process to process; so do arguments, paths and the environment."""
    found = []
    for name in ("one", "another"):
        path = tmp_path / name / "pages.warc.gz"
        subprocess.run(
            [sys.executable, "-c", WRITE, str(path)],
            env={**os.environ, "PYTHONHASHSEED": "0", "HOME": name},
            check=True,
        )
        found.append(path.read_bytes())
    assert found[0] == found[1]
    with path.open("rb") as file:
        pages = {
            record.rec_headers.get_header("WARC-Target-URI"): record.content_stream().read().decode()
            for record in ArchiveIterator(file, check_digests="raise")
        }
    names = ["topics/while", "ctypes", "keyword", "tokenize", "weakref"]
    assert list(pages) == [f"http://pydoc.example/{name}.html" for name in names]
    assert "a &amp; b" in pages[f"http://pydoc.example/{names[0]}.html"]
    assert "PyDLL" in pages["http://pydoc.example/ctypes.html"]
    assert not re.search("0x[0-9a-f]{8}|href=.file:|handle [0-9a-f]", "".join(pages.values()))
