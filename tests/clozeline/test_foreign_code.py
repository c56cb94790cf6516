"""Code of others that fails: in a unit, at its import, in a library that panics, in a command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from clozeline import plugins
from clozeline.__main__ import Command, start
from clozeline.files import read_bytes
from clozeline.foreign_code import import_module
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.registries import FILTERS
from clozeline.repair import explain

FILTER = """
import sys
from clozeline.configuration.config import NoOptions
from clozeline.pipeline.clean.filters import KEEP, Filter

class Own(Filter):
    VERSION = 1
    reasons = ("own",)
    Options = NoOptions

    def __init__(self, options):
        {init}

    def judge(self, document, statistics):
        if "sea" in document.text:
            {fault}
        return KEEP

class Kind(Own):
    def __init__(self, options):
        pass

    def judge(self, document, statistics):
        return KEEP
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of a user, in which commands run and modules are found; forgets them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "own")
    monkeypatch.setattr(sys, "path", [*sys.path])
    rows = ({"text": f"A boat went out to the {word}."} for word in ("lake", "sea", "shore"))
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    yield tmp_path
    sys.modules.pop("own", None)


def run(*words):
    words = ["input=in.jsonl", "output=out", "clean.language=null", *words]
    return main(["clean", *words])


@pytest.mark.parametrize(
    ("fault", "init", "code"),
    [
        ("1 / 0", "pass", 69),
        ("sys.exit(0)", "pass", 69),
        ("self.judge(document, statistics)", "pass", 69),
        ("{}['x']", "pass", 69),
        ("return None", "pass", 69),
        ("open('no_such_file')", "pass", 74),
        ("raise BaseException", "pass", 69),
        ("pass", "raise RuntimeError", 69),
    ],
)
def test_a_filter_that_fails_is_named_with_key_and_document(own, capsys, fault, init, code):
    (own / "own.py").write_text(FILTER.format(fault=fault, init=init))

    assert run("clean.filters=['own:Kind', 'own:Own']") == code

    said = capsys.readouterr().err

    assert "own:Own" in said
    assert "clean.filters.1" in said
    assert "in.jsonl" in said
    assert ("document at 41 of" in said) == (init == "pass")
    assert "report" not in said


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(0)\n",
        "def broken(:\n",
        "1 / 0\n",
        "import no_such_module\n",
        "def f(): f()\nf()\n",
        "class Own: pass\n",
        "Other = 5\n",
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_where_it_is_used(own, capsys, text):
    (own / "own.py").write_text(text)

    assert run("clean.filters=['own:Own']") == 64
    assert "clean.filters.0: " in (said := capsys.readouterr().err)
    assert "own" in said


def test_help_lists_the_other_filters(capsys, monkeypatch):
    load = type(FILTERS).load_class

    def fail(registry, name):
        return import_module("no.such") if name == "exact_lines" else load(registry, name)

    monkeypatch.setattr(type(FILTERS), "load_class", fail)

    assert run("--help") == 0
    assert "c4_quality" in capsys.readouterr().out


def test_a_library_that_panics_ends_in_a_message_with_the_document(own, capsys):
    pieces = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *"Aabcdefghijklmnopqrstuvwxyz."]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], unk_token="[UNK]"))
    pattern = tokenizers.Regex(r"(a+a+)+b|\s+")
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    model.add_special_tokens(pieces[:5])
    (own / "tok").mkdir()
    model.save(str(own / "tok" / "tokenizer.json"))
    with (own / "in.jsonl").open("a") as file:
        file.write(json.dumps({"text": f"A boat {'a' * 40}! went out."}))

    words = ["tokenizer.path=tok", "encode={}", "clean.filters=[]", "clean.language=null"]

    assert main(["encode", "input=in.jsonl", "output=out", *words]) == 69

    said = capsys.readouterr().err

    assert "in.jsonl" in said
    assert "document at 123 of" in said


@pytest.mark.parametrize(("body", "code"), [("return 1 // 0", 69), ("return 3", 3)])
def test_a_command_that_fails_is_not_ours(own, monkeypatch, capsys, body, code):
    (own / "own.py").write_text(f"def main(arguments):\n    {body}\n")
    monkeypatch.syspath_prepend(own)
    command = Command("own", own / "own.py")
    monkeypatch.setattr(sys, "argv", ["clozeline", "own"])
    monkeypatch.setattr("clozeline.__main__.commands", lambda: {"": {"own": command}})

    assert start() == code
    assert ("own.py:2" in capsys.readouterr().err) == (code == 69)


def test_an_error_of_ours_stays_ours(own):
    with pytest.raises(TypeError) as caught:
        FILTERS.resolve(5)

    assert explain(caught.value) == (1, "")


@pytest.mark.parametrize(
    ("name", "value", "file", "is_named"),
    [
        ("SOME_CACHE", "/proc/none", "/proc/none", True),
        ("SOME_CACHE", "/proc/none", "/proc/none/a/b", True),
        ("HOME", "/proc/none", "/proc/none/.cache/a", True),
        ("HOME", "/proc/none", "/proc/none/data/a", False),
        ("SOME_CACHE", "/proc/no", "/proc/none/a", False),
        ("PWD", "/proc/none", "/proc/none/a", False),
    ],
)
def test_a_library_that_follows_a_variable_is_told_so(monkeypatch, name, value, file, is_named):
    monkeypatch.setenv(name, value)
    for read in (np.fromfile, read_bytes):
        with pytest.raises(OSError) as found:
            read(Path(file))

        message = explain(found.value)[1]
        named = is_named and read is np.fromfile
        assert (f"{name}={value}" in message, "copy it again" in message) == (named, not named)
