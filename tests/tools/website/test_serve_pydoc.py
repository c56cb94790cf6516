from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from clozeline.tools.website.serve_pydoc import DENIED, module_names, render, serve


def test_lists_modules_without_importing_them() -> None:
    code = (
        "import sys\nfrom clozeline.tools.website.serve_pydoc import module_names as m\n"
        "m(); print('asyncio' in sys.modules, len(m()))"
    )
    imported, count = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert imported == "False"
    assert int(count) >= 300


def test_nothing_that_opens_windows_or_prints() -> None:
    assert {"json", "json.decoder", "email.mime.text", "xml.dom.minidom"} <= set(module_names())
    assert not [name for name in module_names() if name.split(".")[0] in DENIED or name.endswith("__main__")]


def test_index_links_to_every_page() -> None:
    index = render("/")
    assert index is not None
    links = re.findall(r'href="(/[^"]+)"', index)
    assert len(links) == len(set(links)) > 300
    assert "/json.html" in links
    assert "/topics/LISTS.html" in links or any(link.startswith("/topics/") for link in links)


@pytest.mark.parametrize("path", ["/json.html", "/topics/while.html", "/email.mime.text.html"])
def test_pages_over_http(path: str) -> None:
    with serve() as url, urllib.request.urlopen(url.rstrip("/") + path) as answer:
        body = answer.read().decode()
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<title>Python: " in body


@pytest.mark.parametrize("path", ["/antigravity.html", "/nothing.html", "/topics/nothing.html", "/json"])
def test_no_such_page(path: str) -> None:
    with serve() as url, pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(url.rstrip("/") + path)
    caught.value.close()


@pytest.mark.slow
def test_pages_are_written_alike_in_every_process(tmp_path: Path) -> None:
    """Sets, addresses and handles differ from process to process; so do arguments, paths and the environment."""
    code = (
        "import sys; from clozeline.tools.website import serve_pydoc as s; s.topics = {'while': 'a loop'};"
        "s.module_names = lambda: ('ctypes', 'keyword', 'site', 'sys', 'tokenize', 'weakref');"
        "sys.exit(s.main(['--write', sys.argv[1]]))"
    )
    found = []
    for name in ("one", "another"):
        environment = {**os.environ, "PYTHONHASHSEED": "0", "HOME": name}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], env=environment, check=True)
        files = sorted((tmp_path / name).rglob("*.html"))
        found.append({str(path.relative_to(tmp_path / name)): path.read_text(encoding="utf-8") for path in files})
    assert found[0] == found[1]
    assert list(found[0]) == ["ctypes.html", "keyword.html", "tokenize.html", "topics/while.html", "weakref.html"]
    assert "PyDLL" in found[0]["ctypes.html"]
    assert not re.search("0x[0-9a-f]{8}|href=.file:|handle [0-9a-f]", "".join(found[0].values()))
    random = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    refused = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "none")], env=random, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 64
    assert "expected PYTHONHASHSEED=0" in refused.stderr


@pytest.mark.slow
def test_site_is_large_enough() -> None:
    code = (
        "from clozeline.tools.website.serve_pydoc import module_names as m, render as r;"
        "pages = [p for n in m() if (p := r(f'/{n}.html'))]; print(len(pages), sum(map(len, pages)))"
    )
    pages, characters = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(pages) >= 300
    assert int(characters) >= 8_000_000
