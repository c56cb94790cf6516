"""The weight of the code: what counts, what a folder may weigh, and what a commit must say."""

import json
import subprocess

import pytest

from tests import history, weight


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('"""A docstring."""\n\nx = 1  # a comment\n', 3),
        (f'x = "{"word " * 30}"\n', 5),  # 150 characters
        ('x = f"{a + 1} of {b:{c}}"\n', 3 + 3 + (1 + 3) + (1 + 1) + 1 + (1 + 1)),
        ("def f(a):\n    return g(a)\n", 11),
    ],
)
def test_tokens_of_code_are_counted(text, tokens):
    assert weight.count_tokens(text) == tokens


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository with a file of 3 tokens in `pipeline`, and git in it."""

    def run(*words):
        words = ("-c", "user.name=A", "-c", "user.email=a@example.org", *words)
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "code.py").write_text("x = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "history.py").touch()
    run("init", "--quiet")
    monkeypatch.setattr(weight, "ROOT", tmp_path)
    monkeypatch.setattr(weight, "FIGURES", tmp_path / "tests" / "weight.json")
    monkeypatch.setattr(history, "ROOT", tmp_path)
    return run


@pytest.mark.parametrize(("figure", "code", "left"), [(2, 1, 2), (3, 0, 3), (9, 0, 3)])
def test_more_fails_and_less_lowers_the_figure(git, figure, code, left):
    weight.FIGURES.write_text(json.dumps({"pipeline": figure}))

    assert weight.main() == code
    assert json.loads(weight.FIGURES.read_text())["pipeline"] == left


def test_who_raises_a_figure_says_what_it_buys(git, capsys):
    for number, body in (
        (3, "First."),
        (2, "Less."),
        (5, "More."),
        (6, "One: 1 token, tokens left."),
    ):
        weight.FIGURES.write_text(json.dumps({"pipeline": number}, indent=1))
        git("add", ".")
        git("commit", "-m", f"Change the figure to {number}\n\n{body}")

    assert history.main() == 1
    assert capsys.readouterr().err.count("tokens buy") == 1
