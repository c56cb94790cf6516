"""Views of a row, against what the row holds; the page is self-contained and escapes."""

from __future__ import annotations

import shutil

import pytest

from clozeline.pipeline.corrupt.preview.view import Passage, Sheet
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.shards.inspect_shard import main, view_of
from tests.pages import checked
from tests.tools.shards.viewer.shown_rows import part, row_of, text
from tests.tools.small_run import documents, example_sets, plain_text


def test_the_terminal_shows_text_as_text(shard_sets, capsys):
    manifest, _ = example_sets(shard_sets)["causal_lm"]
    for number in range(len(open_shards(manifest))):
        if "[red]text[/red]" in part(view_of(manifest, number), "input_ids").text.plain:
            break
    assert main([str(manifest), "--sample", str(number)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[red]text[/red]" in plain_text(shown)
    for expected in ("input_ids", "102 with 4,862 tokens", "packed length=48 separator=eos", "the row"):
        assert expected in plain_text(shown)


def test_the_page_stands_alone_and_escapes(shard_sets, tmp_path, capsys):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    texts = ""
    hostile = documents()[0].uid
    rows = [number for number in range(106) if row_of(manifest, number).fixed["document_uid"].tobytes() == hostile]
    for number in [0, 1, *rows[:8]]:
        file = tmp_path / f"{number}.html"
        assert main([str(manifest), "--sample", str(number), "--html", str(file)]) == 0
        shown = "".join(checked(file.read_text(encoding="utf-8")).texts)
        view = view_of(manifest, number)
        for found in view.parts:
            cells = [found.text] if isinstance(found, Passage) else [cell for row in found.rows for cell in row]
            words = (word for cell in cells for word in text(cell).split())
            assert all(word in shown for word in words if len(word) < 20)
            assert found.title in shown
        texts += shown
    assert "<script>alert" in texts
    assert "http://site.example/" in texts
    assert "masked" in texts
    assert capsys.readouterr().out.count("page: ") == 2 + len(rows[:8])


def test_a_single_shard_counts_its_own_rows(shard_sets):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    shards = open_shards(manifest)
    first = shards.manifest.shards[0].rows
    assert view_of(shards.shard_path(1), 4) == view_of(manifest, first + 4)
    tar, _ = example_sets(shard_sets)["span_corruption"]
    assert view_of(next(tar.parent.glob("*00000-of*.tar")), 0).title.startswith("span_corruption/train · row 0 of")


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    cases = [
        ([str(tmp_path / "none.json")], 74, "no shard set here"),
        ([str(manifest), "--sample", "212"], 64, "has 212 rows, numbered from 0"),
        ([str(manifest), "--sample", "-1"], 64, "expected an integer, 0 or more"),
        ([str(manifest), "--tokens", "0"], 64, "expected a number above 0"),
        ([str(manifest.parent / "shard-9.arrow")], 64, "names no such shard"),
        ([str(manifest), "--tokenizer", str(tmp_path)], 64, "no tokenizer here"),
    ]
    for arguments, code, message in cases:
        assert main(arguments) == code
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error


def test_a_corrupt_block_is_named(shard_sets, tmp_path, capsys):
    output = shutil.copytree(shard_sets, tmp_path / "out")
    manifest, _ = example_sets(output)["masked_lm"]
    shards = open_shards(manifest)
    path = shards.shard_path(0)
    raw = bytearray(path.read_bytes())
    raw[int(shards.index.offset[0]) + 600] ^= 1
    path.write_bytes(raw)
    assert main([str(manifest)]) == 65
    assert f"{path}: block 0" in capsys.readouterr().err


def test_without_its_tokenizer_a_row_is_shown_as_ids(shard_sets, tmp_path, capsys):
    """With the same marks, and restored to the same ids; a parent set names the tokenizer."""
    for label, (manifest, _) in example_sets(shard_sets).items():
        moved = shutil.copytree(manifest.parent, tmp_path / label)
        assert main([str(moved)]) == 0
        out, err = capsys.readouterr()
        assert err == f"note: no tokenizer above {moved}/manifest.json: ids are shown; --tokenizer names its folder\n"
        ids = row_of(moved, 0)["input_ids"].tolist()
        shown = plain_text(out)
        assert " ".join(map(str, ids[:3])) in shown
        assert "restored by the objective" in shown
        assert "not possible" not in shown
        assert main([str(moved), "--tokenizer", str(manifest.parent)]) == 0
        assert capsys.readouterr().err == ""


def test_a_damaged_vocabulary_is_named(shard_sets, tmp_path, capsys):
    output = shutil.copytree(shard_sets, tmp_path / "out")
    manifest, _ = example_sets(output)["masked_lm"]
    vocabulary = output / "train_tokenizer" / "tokenizer" / "vocabulary.json"
    for damage in (b"{", b"[]", vocabulary.read_bytes().replace(b"fingerprint", b"fingerprinu")):
        vocabulary.write_bytes(damage)
        assert main([str(manifest)]) == 65
        assert f"{vocabulary}: not a vocabulary" in capsys.readouterr().err


def test_an_example_that_contradicts_itself_is_shown_with_the_reason(shard_sets):
    from clozeline.pipeline.corrupt.objectives import build_objective
    from clozeline.pipeline.corrupt.preview.row_view import Pieces
    from clozeline.pipeline.rows import Row
    from clozeline.tools.shards.inspect_shard import _restore

    manifest, _ = example_sets(shard_sets)["bart"]
    facts = open_shards(manifest).manifest.objective
    row = row_of(manifest, 0)
    target = row["target_ids"].copy()
    target[0] += 1
    wrong = Row(row.fixed, {**row.columns, "target_ids": target})
    show = Pieces(load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer"), 100)
    objective = build_objective({"name": facts.name, **facts.options}, show.vocabulary, facts.label)
    (sheet,) = _restore(facts, wrong, show)
    assert isinstance(sheet, Sheet)
    with pytest.raises(ValueError) as error:
        objective.uncorrupt(wrong)
    assert sheet.rows == (("not possible", str(error.value)),)
