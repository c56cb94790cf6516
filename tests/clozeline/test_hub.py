"""Published models by name: what is downloaded, what is recorded, and what a user reads if it
fails."""

import json
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer, models

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, StorageError
from clozeline.hub import fetch_folder, origin_of
from clozeline.pipeline.tokenize.import_published.config import TokenizerConfig
from clozeline.repair import explain
from clozeline.tools.command import find_model
from clozeline.train.configuration.model_source import with_source
from clozeline.train.registries import TRAINING_KEYS
from tests.clozeline.installed import installed
from tests.loopback_site import Site

COMMITS = {"main": "a" * 40, "older": "b" * 40}
"""Branches of every repository."""


class Hub:
    """Repositories by name, each a folder.

    `requests` holds method, path and authorization of all requests.
    """

    def __init__(self, folders, tokens=()):
        self.folders = folders
        self.tokens = set(tokens)
        self.gated = set()
        self.requests = []
        self.down = False
        self.address = ""

    def answer(self, method, path, authorization):
        self.requests.append((method, path, authorization))
        if self.down:
            return 503, {}, b"down for maintenance"
        if self.tokens and authorization.removeprefix("Bearer ") not in self.tokens:
            return (
                401,
                {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
                b"",
            )

        words = path.split("?")[0].removeprefix("/api/models").strip("/").split("/")
        if len(words) < 4:  # what the package asks of its own accord
            return 404, {}, b""
        name, kind, revision, rest = "/".join(words[:2]), *words[2:4], "/".join(words[4:])
        folder = self.folders.get(name)
        if folder is None:
            return (
                404,
                {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
                b"",
            )

        if name in self.gated:
            return (
                403,
                {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"},
                b"",
            )

        commit = COMMITS.get(revision, revision)
        if commit not in COMMITS.values():
            return (
                404,
                {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"},
                b"",
            )

        files = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        if kind == "resolve":
            return self._file(files[rest], commit)
        if kind == "revision":
            plain = {
                "id": name,
                "sha": commit,
                "siblings": [{"rfilename": file} for file in files],
            }
        else:
            digests = {
                file: sha256(path.read_bytes()).hexdigest()[:40] for file, path in files.items()
            }
            plain = [
                {
                    "type": "file",
                    "path": file,
                    "size": path.stat().st_size,
                    "oid": digests[file],
                }
                for file, path in files.items()
            ]

        return 200, {"Content-Type": "application/json"}, json.dumps(plain).encode()

    def _file(self, path, commit):
        body = path.read_bytes()
        return 200, {"ETag": f'"{sha256(body).hexdigest()[:40]}"', "X-Repo-Commit": commit}, body

    def downloaded(self):
        got = [path for method, path, _ in self.requests if method == "GET" and "/resolve/" in path]
        return sorted(path.rpartition("/")[2] for path in got)


@contextmanager
def serving(folders, tokens=()):
    """Yield a hub at `http://127.0.0.1:PORT`."""
    hub = Hub(folders, tokens)

    def answer(request):
        status, headers, body = hub.answer(
            request.command, request.path, request.headers.get("Authorization", "")
        )
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)

    with Site({}, answer).running() as site:
        hub.address = site.url.rstrip("/")
        yield hub


TOKEN = "hf_thisIsNoRealToken"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A GPT-2 of transformers with a tokenizer, in parts, with files that must not be
    downloaded."""
    folder = tmp_path_factory.mktemp("published")
    config = transformers.GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder, max_shard_size="1KB")
    tokenizer = Tokenizer(
        models.WordLevel({word: token for token, word in enumerate("abcdefgh")}, unk_token="h")
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="g").save_pretrained(
        folder
    )

    for name in (
        "pytorch_model.bin",
        "README.md",
        "model.fp16.safetensors",
        "onnx/spiece.model",
        "training.pt",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"not for us")

    return folder


@pytest.fixture
def hub(published, monkeypatch, tmp_path):
    with serving({"org/tiny": published}) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
            server.address + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def parts_of(folder):
    return sorted(path.name for path in folder.glob("model-*.safetensors"))


def test_configuration_tokenizer_and_safetensors_are_downloaded_once(hub, published):
    tokenizer = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    folder = fetch_folder("hf://org/tiny", weights=False)

    assert hub.downloaded() == tokenizer

    wanted = [*tokenizer, "model.safetensors.index.json", *parts_of(published)]

    assert len(parts_of(published)) > 1

    for _ in range(2):
        assert fetch_folder("hf://org/tiny") == folder
        assert (
            sorted(path.name for path in folder.iterdir())
            == sorted({*hub.downloaded()})
            == sorted(wanted)
        )

    assert all((folder / name).read_bytes() == (published / name).read_bytes() for name in wanted)
    assert len(hub.downloaded()) == len(wanted)


def test_the_folder_names_the_commit(hub):
    """A commit in the cache needs no network."""
    reference = origin_of(fetch_folder("hf://org/tiny"))

    assert reference == f"hf://org/tiny@{COMMITS['main']}"
    assert origin_of(fetch_folder("hf://org/tiny@older")) == f"hf://org/tiny@{COMMITS['older']}"
    assert origin_of(Path("downloads/tiny")) == "tiny"

    asked = [path for _, path, _ in hub.requests if "/resolve/" in path]

    assert {path.split("/resolve/")[1].partition("/")[0] for path in asked} == set(COMMITS.values())

    hub.requests.clear()

    assert origin_of(fetch_folder(reference)) == reference
    assert not hub.requests
    assert fetch_folder(Path("~/own")) == Path("~/own")


def test_a_cache_that_cannot_be_written_is_named(hub, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    cache = str(tmp_path / "file" / "cache")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", cache)
    monkeypatch.setenv("HF_HUB_CACHE", cache)
    with pytest.raises(OSError) as found:
        fetch_folder("hf://org/tiny")

    assert f"HF_HUB_CACHE={cache}" in explain(found.value)[1]


@pytest.mark.parametrize("how", ["down", "offline"])
def test_without_a_hub_the_cache_is_read(hub, how, monkeypatch, published, capsys):
    tokenizer = fetch_folder("hf://org/tiny", weights=False)
    hub.down = how == "down"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", how == "offline")

    assert fetch_folder("hf://org/tiny", weights=False) == tokenizer
    assert str(tokenizer) in capsys.readouterr().err
    # the weights were never downloaded
    with pytest.raises(StorageError, match=r"lacks files.*give its path"):
        fetch_folder("hf://org/tiny")


@pytest.mark.parametrize(
    "name",
    [
        "hf://",
        "hf://tiny",
        "hf://org/tiny/config.json",
        "hf://org/ti ny",
        "hf://org/tiny@",
    ],
)
def test_a_malformed_name_is_refused(name):
    with pytest.raises(
        ConfigurationError, match="expected hf://org/name, or hf://org/name@revision"
    ):
        fetch_folder(name)


def test_what_the_hub_does_not_have_is_named(hub):
    with pytest.raises(
        ConfigurationError,
        match="has no model org/other that you may read: correct the name, or accept",
    ):
        fetch_folder("hf://org/other")

    with pytest.raises(ConfigurationError, match="org/tiny has no revision v9: expected a branch"):
        fetch_folder("hf://org/tiny@v9")
    fetch_folder("hf://org/tiny")
    hub.gated.add("org/tiny")  # what the cache holds is no answer to a refusal
    with pytest.raises(ConfigurationError, match="accept the terms on its page and set HF_TOKEN"):
        fetch_folder("hf://org/tiny")


def test_pickled_weights_are_refused_by_name(hub, tmp_path):
    hub.folders["org/old"] = tmp_path / "old"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text("{}")
    (tmp_path / "old" / "pytorch_model.bin").write_bytes(b"never sent")

    with pytest.raises(
        ConfigurationError,
        match=r"got config\.json, pytorch_model\.bin: other formats, such as pickled",
    ):
        fetch_folder("hf://org/old")

    assert hub.downloaded() == []


@pytest.mark.slow
def test_the_command_imports_a_private_model_and_keeps_the_token_to_itself(
    published, monkeypatch, tmp_path
):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # set where a test of this process exported
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    with serving({"org/tiny": published}, [TOKEN]) as hub:
        words = ["import-model", "hf://org/tiny", "imported"]
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        refused = installed(*words, cwd=tmp_path)

        assert refused.returncode == 64, refused.stderr
        assert "set HF_TOKEN" in refused.stderr

        monkeypatch.setenv("HF_TOKEN", TOKEN)
        done = installed(*words, cwd=tmp_path)

        assert done.returncode == 0, done.stderr
        assert all(
            authorization == f"Bearer {TOKEN}" for _, path, authorization in hub.requests[-1:]
        )

    record = json.loads((tmp_path / "imported" / "model.json").read_text())
    facts = json.loads((tmp_path / "imported" / "tokenizer" / "published.json").read_text())

    assert record["source"] == facts["source"] == f"hf://org/tiny@{COMMITS['main']}"

    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
    assert TOKEN not in refused.stdout + refused.stderr + done.stdout + done.stderr


def test_every_key_and_argument_of_a_model_takes_a_name(hub):
    model = "hf://org/tiny"
    cached = fetch_folder("hf://org/tiny")

    assert validate(TokenizerConfig, {"path": model}, "").path == cached

    start = {"layers": [0], "source": model}
    distil = validate(TRAINING_KEYS.load_class("distil"), {"teacher": model, "start": start}, "")

    assert distil.teacher == distil.start.source == cached

    found = with_source({"init_from": model})

    assert found["init_from"] == str(cached)
    assert found["family"] == "decoder"
    assert with_source({"init_from": model, "family": "decoder"})["init_from"] == str(cached)
    assert find_model(model) == str(cached)
