"""Serve Python's own reference as a site to crawl: `clozeline serve-pydoc --port 8475`.

Serves, on the loopback interface, pydoc's pages of the standard library's modules and the topics of the language
reference. Pages are made on first request and cached. `--write DIR` writes all of them instead, byte-identical for
every process of one Python.
"""

import argparse
import contextlib
import functools
import html
import importlib
import importlib.util
import io
import os
import pkgutil
import pydoc
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.files import publish
from clozeline.tools.command import some_path

HOST: Final = "127.0.0.1"
DENIED: Final = frozenset(
    {
        "antigravity",  # opens a browser
        "this",  # prints
        "idlelib",  # these three open windows
        "tkinter",
        "turtle",
        "turtledemo",
        "test",  # hundreds of modules; some start servers and processes
        "distutils",  # deprecated, and replaced by installers at import
        "lib2to3",  # writes grammar caches
        "ensurepip",  # carries an installer
    }
)
DENIED_PARTS: Final = frozenset({"__main__", "test", "tests"})
_VOLATILE: Final = re.compile(r" at 0x[0-9a-fA-F]+|, handle [0-9a-f]+|<a href=\"file:.*?</a>")
"""Parts of a page that differ between processes, or reveal where Python is installed."""
_PROCESS_MODULES: Final = frozenset({"sys", "site"})
"""Modules whose pages describe the process and its folders."""
_render_lock = threading.Lock()


@functools.cache
def module_names() -> tuple[str, ...]:
    """Return the sorted standard modules and submodules with a page, found by their files without imports."""
    names: list[str] = []
    for name in sorted(sys.stdlib_module_names - DENIED):
        spec = None if name.startswith("__") else importlib.util.find_spec(name)
        if spec is not None:
            names += [name, *_list_submodules(name, list(spec.submodule_search_locations or ()))]
    return tuple(names)


def _list_submodules(package: str, folders: list[str]) -> list[str]:
    names: list[str] = []
    for module in pkgutil.iter_modules(folders):
        if module.name not in DENIED_PARTS:
            names.append(full := f"{package}.{module.name}")
            if module.ispkg:
                names += _list_submodules(full, [str(Path(folder) / module.name) for folder in folders])
    return names


@functools.cache
def render(path: str) -> str | None:
    """Return the HTML page at a path (`/`, `/NAME.html`, `/topics/NAME.html`), or None if there is none."""
    if path in ("/", "/index.html"):
        lists = {"Topics": [(f"topics/{html.escape(name)}", html.escape(name)) for name in sorted(topics)],
                 "Modules": [(name, name) for name in module_names()]}  # fmt: skip
        body = ""
        for title, pages in lists.items():
            items = "\n".join(f'<li><a href="/{page}.html">{name}</a></li>' for page, name in pages)
            body += f"<h1>{title}</h1>\n<ul>\n{items}\n</ul>\n"
        return pydoc.html.page("Python reference", body)
    name = path.removeprefix("/").removesuffix(".html")
    if name.startswith("topics/"):
        name = name.removeprefix("topics/")
        parts = [html.escape(part) for part in topics.get(name, "").split("\n\n") if part.strip()]
        paragraphs = "\n".join(f"<p>{part}</p>" for part in parts)
        return pydoc.html.page(name, f"<h1>{html.escape(name)}</h1>\n{paragraphs}") if name in topics else None
    return _render_module(name) if path.endswith(".html") and name in module_names() else None


def _render_module(name: str) -> str | None:
    silence = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(name)
            # pydoc writes indents and many spaces as &nbsp;, which ordinary sites do not
            return pydoc.html.page(name, pydoc.html.document(module, name)).replace("&nbsp;", " ")
        except ImportError:
            return None


class _Handler(BaseHTTPRequestHandler):
    """Serves pages; pydoc is not thread-safe, so pages are made one at a time."""

    def do_GET(self) -> None:
        with _render_lock:
            page = render(self.path)
        status = HTTPStatus.OK if page is not None else HTTPStatus.NOT_FOUND
        body = (page or "<p>There is no such page.</p>").encode("utf-8", errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the reader may close the connection early
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Print nothing: the crawler reports its requests."""


@contextlib.contextmanager
def serve(port: int = 0) -> Iterator[str]:
    """Serve in the background while the block runs; yield the site's URL. Port 0 means any free port."""
    server = ThreadingHTTPServer((HOST, port), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="pydoc site", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_pages(folder: Path) -> None:
    """Write the pages as HTML files, without the index and pages about this process and its folders."""
    if sys.flags.hash_randomization:
        raise ConfigurationError("--write: expected PYTHONHASHSEED=0 in the environment, since pages show sets")
    modules = [name for name in module_names() if name not in _PROCESS_MODULES]
    for name in [*(f"topics/{name}" for name in sorted(topics)), *modules]:
        if (page := render(f"/{name}.html")) is not None:
            with publish(folder / f"{name}.html") as temporary:
                temporary.write_text(_VOLATILE.sub("", page), encoding="utf-8", errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted, or write the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8475, help="on the loopback interface (default %(default)s)")
    parser.add_argument("--write", type=some_path, metavar="DIR", help="write the pages there as files, and end")
    options = parser.parse_args(arguments)
    port = options.port
    os.environ.clear()  # the page of `os` shows it
    try:
        if options.write is not None:
            write_pages(options.write)
            return 0
        with serve(port) as url:
            print(f"serving {len(module_names()) + len(topics)} pages at {url}", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except ClozelineError as error:
        print(f"serve_pydoc: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"serve_pydoc: port {port}: {error.strerror}; choose another --port", file=sys.stderr)
        return 74
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
