"""Extensions of an installed distribution: found without an import, hidden, and told by doctor."""

import sys

import pytest

from clozeline import extension_list
from clozeline.__main__ import main
from clozeline.extension_list import HIDE, explain_unused, find_extensions, list_extensions
from tests.refusals import refused

PACKAGES = {
    "wordlab": '"""Count words.\n\nNot syllables.\n"""\n\nNEEDS = ("walklab",)\nraise SystemExit\n',
    "walklab": '"""Draw walks."""\n\nNEEDS = ()\nraise SystemExit\n',
}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A distribution with both packages."""
    info = tmp_path / "lab-1.2.dist-info"
    for name, text in PACKAGES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.2\n")
    entries = "".join(f"{name} = {name}\n" for name in PACKAGES)
    (info / "entry_points.txt").write_text(f"[clozeline.extensions]\n{entries}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(HIDE, raising=False)
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


def forget():
    find_extensions.cache_clear()
    extension_list._list_extensions.cache_clear()


def names():
    return {each.name for each in list_extensions()}


def test_an_extension_that_needs_a_hidden_one_is_hidden(lab, monkeypatch):
    everything = {*find_extensions()}

    assert {*PACKAGES} <= everything == names()

    for hide, hidden in (("wordlab", {"wordlab"}), ("walklab", {*PACKAGES}), ("all", everything)):
        monkeypatch.setenv(HIDE, hide)
        assert names() == everything - hidden

    monkeypatch.setenv(HIDE, "wordlab,wordlap")
    with refused(r"no extension 'wordlap'; known: .*wordlab, all"):
        list_extensions()


def test_a_hidden_command_is_told_from_an_unknown_one(lab, monkeypatch, capsys):
    commands = lab / "walklab" / "commands"
    commands.mkdir()
    (commands / "draw_walks.py").touch()
    monkeypatch.setenv(HIDE, "walklab")
    monkeypatch.setattr(sys, "argv", ["clozeline", "draw-walks"])

    with pytest.raises(SystemExit):
        main()
    assert "'draw-walks'; it is of the extension walklab" in capsys.readouterr().err


def test_ours_declare_what_is_there():
    known = find_extensions()

    for each in (each for each in known.values() if each.distribution == "clozeline"):
        assert each.summary.endswith(".")
        assert known.keys() >= {*each.needs}


def test_two_extensions_of_one_name_are_refused(lab):
    (lab / "other-1.dist-info").mkdir()
    (lab / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    entries = lab / "other-1.dist-info" / "entry_points.txt"
    entries.write_text("[clozeline.extensions]\nwordlab = walklab\n")
    forget()
    with refused("'wordlab': (lab and other|other and lab)"):
        list_extensions()


STAGE = "class WalkStage:\n    name = 'walk'\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "def broken(:\n"),
        ("__init__.py", "NEEDS = 5\n"),
        ("__init__.py", "NEEDS = 'walklab'\n"),
        ("__init__.py", "PARTS = {'train': 7}\n"),
        ("__init__.py", b'"""S\xe9a."""\n'),
        ("__init__.py", b"\0"),
        ("__init__.py", None),
        ("walk/stage.py", "class"),
        ("walk/stage.py", "x = 1\n"),
        ("walk/stage.py", "class WalkStage: pass\n"),
        ("walk/stage.py", f"{STAGE}    after = 5\n"),
    ],
)
def test_a_broken_extension_is_told_and_hides_itself(lab, monkeypatch, capsys, file, text):
    """Every other command goes on; what needs it is not used either."""
    path = lab / "walklab" / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else (text or "").encode())
    if text is None:
        path.unlink()
    forget()

    assert names().isdisjoint(PACKAGES)
    assert str(path) in explain_unused("walklab")
    assert "walklab" in explain_unused("wordlab")

    monkeypatch.setattr(sys, "argv", ["clozeline", "--help"])

    assert main() == 0
    assert str(path) in capsys.readouterr().err


def test_an_extension_without_its_package_is_not_used(lab):
    entries = lab / "lab-1.2.dist-info" / "entry_points.txt"
    entries.write_text("[clozeline.extensions]\nodd = no_such_lab.part\n")
    forget()

    assert "no_such_lab" in explain_unused("odd")
