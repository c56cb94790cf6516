"""A hub of Hugging Face on this machine: the requests that `huggingface_hub` makes to list and download a model."""

import json
from contextlib import contextmanager
from hashlib import sha256

from tests.loopback_site import Site

COMMITS = {"main": "a" * 40, "older": "b" * 40}
"""Branches of every repository."""


class Hub:
    """Repositories by name, each a folder; `requests` holds method, path and authorization of all requests."""

    def __init__(self, folders, tokens=()):
        self.folders = folders
        self.tokens = set(tokens)
        self.gated = set()
        self.requests = []
        self.down = False
        self.address = ""

    def answer(self, method, path, authorization):
        """Return status, headers and body."""
        self.requests.append((method, path, authorization))
        if self.down:
            return 503, {}, b"down for maintenance"
        if self.tokens and authorization.removeprefix("Bearer ") not in self.tokens:
            return 401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, b""
        words = path.split("?")[0].removeprefix("/api/models").strip("/").split("/")
        if len(words) < 4:  # what the package asks of its own accord
            return 404, {}, b""
        name, kind, revision, rest = "/".join(words[:2]), *words[2:4], "/".join(words[4:])
        folder = self.folders.get(name)
        if folder is None:
            return 404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, b""
        if name in self.gated:
            return 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"}, b""
        commit = COMMITS.get(revision, revision)
        if commit not in COMMITS.values():
            return 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"}, b""
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        if kind == "resolve":
            return self._file(files[rest], commit)
        if kind == "revision":
            plain = {"id": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]}
        else:
            digests = {file: sha256(path.read_bytes()).hexdigest()[:40] for file, path in files.items()}
            plain = [
                {"type": "file", "path": file, "size": path.stat().st_size, "oid": digests[file]}
                for file, path in files.items()
            ]
        return 200, {"Content-Type": "application/json"}, json.dumps(plain).encode()

    def _file(self, path, commit):
        body = path.read_bytes()
        return 200, {"ETag": f'"{sha256(body).hexdigest()[:40]}"', "X-Repo-Commit": commit}, body

    def downloaded(self):
        """Return the names of the files that were sent."""
        got = [path for method, path, _ in self.requests if method == "GET" and "/resolve/" in path]
        return sorted(path.rpartition("/")[2] for path in got)


@contextmanager
def serving(folders, tokens=()):
    """Yield a hub at `http://127.0.0.1:PORT`."""
    hub = Hub(folders, tokens)

    def answer(request):
        status, headers, body = hub.answer(request.command, request.path, request.headers.get("Authorization", ""))
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)

    with Site({}, answer).running() as site:
        hub.address = site.url.rstrip("/")
        yield hub
