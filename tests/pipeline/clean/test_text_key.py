"""A file without the key of the text: the keys that it has are named, and the key to set."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.execution.progress import accounting_lines
from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.clean.cleaning import run_clean

ROWS = [{"body": "A text.", "id": 1}, {"body": "Another.", "id": 2}]


def arrow(path):
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "a.parquet": lambda path: pa.parquet.write_table(pa.Table.from_pylist(ROWS), path),
    "a.arrow": arrow,
    "a.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS))),
    "a.json": lambda path: path.write_text(json.dumps(ROWS)),
    "a.csv": lambda path: path.write_text("body,id\nA text.,1\nAnother.,2\n"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_message_names_the_keys_and_the_command_works(name, tmp_path, capsys):
    WRITERS[name](tmp_path / name)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: test\nclean: {language: null, filters: []}\n")
    command = ["--config", str(recipe), f"input={tmp_path / name}", f"output={tmp_path / 'out'}"]
    assert main(command) == 64
    shown = capsys.readouterr()
    assert "no 'text' among the keys: body, id" in shown.err
    assert "input.text_key=KEY" in shown.err
    assert "Traceback" not in shown.err
    assert main([*command, "input.text_key=body"]) == 0
    assert "2 documents" in capsys.readouterr().out


def test_one_file_of_several_without_the_key_is_in_the_table(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    WRITERS["a.parquet"](files / "a.parquet")
    (files / "b.jsonl").write_text('{"text": "x"}\n{"words": "y"}\n')
    done = run_clean(str(files), tmp_path / "out")
    assert done.counts["text_lacks"] == {"no 'text' among the keys: body, id": 1, "no 'text' among the keys: words": 1}
    assert "1 no 'text' among the keys: words" in str(accounting_lines([done.summary]))


def test_keys_are_named_up_to_a_limit(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n' + "".join(json.dumps({f"k{number}": 1}) + "\n" for number in range(100)))
    lacks = run_clean(str(path), tmp_path / "out").counts["text_lacks"]
    assert len(lacks) == 21
    assert sum(lacks.values()) == 100


def test_an_input_without_a_document_is_not_blamed_on_the_filters(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x" "y"}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: test\nclean: {}\n")
    assert main(["--config", str(recipe), f"input={path}", f"output={tmp_path / 'out'}"]) == 69
    shown = capsys.readouterr().err
    assert "no document was found in the input" in shown
    assert "default/a.jsonl: line 1 is no JSON: Expecting ',' delimiter at character 14" in " ".join(shown.split())


def test_a_column_of_another_type_is_named(tmp_path, capsys):
    pa.parquet.write_table(pa.table({"text": [["a", "list"]]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"text": ["a", "list"]}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: test\nclean: {}\n")
    for name, shown in (
        ("a.parquet", "column 'text' has the type list<element: string>"),
        ("b.jsonl", "'text' is a list"),
    ):
        output = tmp_path / "out" / name
        assert main(["--config", str(recipe), f"input={tmp_path / name}", f"output={output}"]) == 64
        assert shown in " ".join(capsys.readouterr().err.split())
