"""Messages of commits: right ones pass, and each kind of mistake is named."""

import subprocess

import pytest

from tests import history

RIGHT = [
    "Add a reader of Parquet files\n\nCrawls arrive in columns, which a text reader cannot open.",
    "Pass the seed to each worker\n\nTwo workers drew the same numbers.\n\nCo-authored-by: A <a@b>",
    "Focus the search on one shard\n\nIt read them all.",
    "Embed the font in each page\n\nPages are read offline.",
    "Process files in the order of their names\n\nThe order of a folder differs by file system.",
]


@pytest.mark.parametrize("message", RIGHT)
def test_right_messages_pass(message):
    assert list(history.find_mistakes(message)) == []


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("Added a reader\n\nCrawls need it.", "imperative"),
        ("Adding a reader\n\nCrawls need it.", "imperative"),
        ("Adds a reader\n\nCrawls need it.", "imperative"),
        ("add a reader\n\nCrawls need it.", "capital"),
        ("Add a reader.\n\nCrawls need it.", "period"),
        ("Add a reader " + "of files " * 8 + "\n\nCrawls need it.", "characters"),
        ("Add a reader", "body"),
        ("Add a reader\n\nSigned-off-by: A <a@b>", "body"),
        ("Add a reader\nCrawls need it.", "blank line"),
    ],
)
def test_each_mistake_is_named(message, word):
    assert any(word in mistake for mistake in history.find_mistakes(message))


def test_commits_after_the_check_are_read(tmp_path, monkeypatch, capsys):
    """Only what came after the file itself is judged, and the command says which commit it means."""

    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    git("config", "user.name", "A")
    git("config", "user.email", "a@example.org")
    (tmp_path / "tests").mkdir()
    git("commit", "--allow-empty", "-m", "old things.")
    (tmp_path / "tests" / "history.py").touch()
    git("add", ".")
    git("commit", "-m", "the check")
    monkeypatch.setattr(history, "ROOT", tmp_path)

    assert history.main() == 0

    git("commit", "--allow-empty", "-m", RIGHT[0])

    assert history.main() == 0

    git("commit", "--allow-empty", "-m", "Removed it")

    assert history.main() == 1

    printed = capsys.readouterr().err

    assert printed.count('"Removed it"') == 2
    assert "old things" not in printed


def test_outside_of_a_repository_nothing_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "ROOT", tmp_path)
    assert history.main() == 0
