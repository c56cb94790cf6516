"""Commands on odd files give the scores of the clean ones.

`normalize=none` scores the texts as they are.
"""

import json

import pytest

from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from tests.pipeline.tables.odd_files import BOM, CAFE, HELLO, NFD, csv, lines, write


def scores_of(capsys, run, *words):
    capsys.readouterr()
    assert evaluate([str(run), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "odd", [f"{BOM}{HELLO}\r\n{NFD}\r\n", f"{HELLO}\x00\n{NFD}\x0c\n", f"{HELLO}\u2028{NFD}"]
)
def test_perplexity_is_that_of_the_text_that_training_saw(decoder, tmp_path, capsys, odd):
    clean = write(tmp_path, "clean.txt", f"{HELLO}\n{CAFE}")
    path = write(tmp_path, "odd.txt", odd)
    expected = scores_of(capsys, decoder[0], f"perplexity={clean}")

    assert scores_of(capsys, decoder[0], f"perplexity={path}") == expected
    assert (
        scores_of(capsys, decoder[0], f"perplexity={path}", "normalize=none")["tokens"]
        > expected["tokens"]
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("clean.csv", BOM + csv(HELLO, NFD, end="\r\n")),
        ("clean.jsonl", lines(HELLO, CAFE).encode("utf-16")),
    ],
)
def test_pairs_are_those_of_the_clean_file(decoder, tmp_path, capsys, name, content):
    (tmp_path / "odd").mkdir()
    clean = write(tmp_path, "clean.jsonl", lines(HELLO, CAFE))
    path = write(tmp_path / "odd", name, content)
    expected = scores_of(capsys, decoder[0], "suite=pairs", f"input={clean}")
    assert scores_of(capsys, decoder[0], "suite=pairs", f"input={path}") == expected
