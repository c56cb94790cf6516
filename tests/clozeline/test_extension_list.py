"""Extensions of an installed distribution: found without an import, hidden, and told by doctor."""

import sys
import tomllib

import pytest

from clozeline import HOME, extension_list
from clozeline.__main__ import main
from clozeline.extension_list import HIDE, find_extensions, list_extensions
from tests.refusals import refused

PACKAGES = {
    "wordlab": '"""Count words.\n\nNot syllables.\n"""\n\nNEEDS = ("walklab",)\nraise SystemExit\n',
    "walklab": '"""Draw walks."""\n\nEXTRA = "fast"\nNEEDS = ()\nraise SystemExit\n',
}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A distribution with both packages, one of whose extras is not installed."""
    info = tmp_path / "lab-1.2.dist-info"
    for name, text in PACKAGES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    info.mkdir()
    extras = (
        "Requires-Dist: no-such-package; extra == 'fast'\nRequires-Dist: numpy; extra == 'slow'\n"
    )
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: lab\nVersion: 1.2\n{extras}")
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
    assert "'draw-walks'; it is of the extension walklab; clozeline doc" in capsys.readouterr().err


def test_ours_declare_what_is_there():
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    known = find_extensions()

    for each in (each for each in known.values() if each.distribution == "clozeline"):
        assert each.summary.endswith(".")
        assert known.keys() >= {*each.needs}
        assert not each.extra or each.extra in project["optional-dependencies"]


def test_an_extension_without_its_package_or_of_a_taken_name_is_refused(lab):
    entries = lab / "lab-1.2.dist-info" / "entry_points.txt"
    for entry, said in (
        ("odd = no_such_lab", "the extension 'odd' of an installed distribution: no package"),
        (
            "wordlab = walklab",
            "two of the kind extension are called 'wordlab': (lab and other|other and lab); rename "
            "one, or uninstall its distribution",
        ),
    ):
        (lab / "other-1.dist-info").mkdir(exist_ok=True)
        other = lab / "other-1.dist-info" / "entry_points.txt"
        (lab / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
        other.write_text(f"{entries.read_text().splitlines()[0]}\n{entry}\n")
        forget()
        with refused(said):
            list_extensions()
