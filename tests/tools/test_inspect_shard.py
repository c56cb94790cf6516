"""What is shown of a row, against what the row holds; the page is self-contained and escapes."""

from __future__ import annotations

import json
import shutil

import pytest

from pipeline.shards import open_shards
from pipeline.tokenizers import load_tokenizer
from tests.pages import checked
from tests.tools.small_run import documents, example_sets, plain_text
from tools.explain_batch import explain
from tools.inspect_shard import main, view_of
from tools.lib.feed import Feed
from tools.viewer.view import MEANINGS, Passage, Sheet
from train.stream.phases import as_phases


@pytest.fixture(scope="module")
def tokenizer(shard_sets):
    return load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")


def row_of(path, number):
    shards = open_shards(path)
    block, place = shards.locate(number)
    return shards.read_block(block).row(place)


def part(view, title):
    return next(found for found in view.parts if found.title.startswith(title))


def text(cell):
    return cell if isinstance(cell, str) else "".join(token.text for token in cell)


def flat(shown):
    return shown.replace("⏎", "")


def test_all_documents_of_a_row_are_named(shard_sets):
    """Packed rows of short documents hold several; `explain_batch` names the same."""
    manifest, _ = example_sets(shard_sets)["causal_lm"]
    shards = open_shards(manifest)
    named = {
        (facts["shard"], facts["block"], facts["row"]): [other["document"] for other in facts["others"]]
        for facts in explain(Feed(as_phases(shards), 0, 1, len(shards)), 0)
    }
    several = 0
    for number in range(40):
        block, place = shards.locate(number)
        path = shards.shard_path(int(shards.index.shard[block])).name
        origin = part(view_of(manifest, number), "where it comes from")
        others = [text(value).split(":")[0] for name, value in origin.rows if name == "then document"]
        assert others == named[path, int(shards.index.block[block]), place]
        several += bool(others)
    assert several > 5


def sample_text(shard_sets, label, number, tokenizer):
    """The original of an example, from its sample set."""
    manifest, samples = example_sets(shard_sets)[label]
    uid = row_of(manifest, number).fixed["uid"]
    shards = open_shards(samples)
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            if row.fixed["uid"] == uid:
                return tokenizer.decode(row["ids"].tolist())
    raise AssertionError("no such sample")


def test_masked_rows_show_labels_beside_what_stands_in_their_place(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    kinds = set()
    for number in range(60):
        row, view = row_of(manifest, number), view_of(manifest, number)
        labels = part(view, "labels")
        assert [int(cells[0]) for cells in labels.rows] == row["label_positions"].tolist()
        for (_, original, shown, what), label, place in zip(
            labels.rows, row["label_ids"].tolist(), row["label_positions"].tolist(), strict=True
        ):
            token = int(row["input_ids"][place])
            decoded = tokenizer.decode([label]).replace("\n", "⏎")
            expected = decoded if decoded.strip() else "␣" * len(decoded)
            assert text(original) == expected or "\ufffd" in decoded
            assert what == {3: "masked", label: "kept"}.get(token, "replaced")
            assert (text(shown) == "<mask>") == (what == "masked")
            assert shown[0].role == what
            kinds.add(what)
        original = flat(text(part(view, "original").tokens)).replace("▌", "").replace("|", "")
        assert original == f"<cls>{sample_text(shard_sets, 'masked_lm', number, tokenizer)}<sep>"
        marked = [token for token in part(view, "input").tokens if token.role in ("masked", "replaced", "kept")]
        assert len(marked) == len(row["label_ids"])
    assert kinds == {"masked", "replaced", "kept"}
    assert {token.role for token in view.legend()} >= {"masked", "special"}


def test_sentinels_and_their_spans_stand_side_by_side(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["span_corruption"]
    for number in range(20):
        row, view = row_of(manifest, number), view_of(manifest, number)
        spans = part(view, "spans").rows
        sentinels = [token for token in row["target_ids"].tolist() if tokenizer.piece(token).startswith("<extra_")]
        assert [text(cells[0]) for cells in spans] == [tokenizer.piece(token) for token in sentinels]
        behind = "".join(f"{text(cells[0])}{text(cells[2])}" for cells in spans)
        assert flat(behind) + "</s>" == tokenizer.decode(row["target_ids"].tolist())
        assert all(cells[0][0].number == cells[2][0].number for cells in spans)
        whole = flat(text(part(view, "original").tokens))
        assert whole == sample_text(shard_sets, "span_corruption", number, tokenizer) + "</s>"


def test_reordered_and_infilled_rows_show_both_orders_and_every_span(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["bart"]
    orders = 0
    for number in range(30):
        row, view = row_of(manifest, number), view_of(manifest, number)
        spans = part(view, "spans").rows
        assert len(spans) == len(row["text_infilling_span_starts"])
        assert all(text(cells[0]) == "<mask>" for cells in spans)
        empty = [text(cells[2]).startswith("(nothing") for cells in spans]
        assert empty == [length == 0 for length in row["text_infilling_span_lengths"].tolist()]
        order = row["sentence_reordering_sentence_order"].tolist()
        if order != sorted(order):
            orders += 1
            sheet = part(view, "sentence order").rows
            assert [int(cells[1]) - 1 for cells in sheet] == order
            sentences = {int(cells[1]): text(cells[2]) for cells in sheet}
            together = flat("".join(sentences[place] for place in sorted(sentences)))
            assert together == sample_text(shard_sets, "bart", number, tokenizer)
    assert orders > 5


def test_rotated_rows_show_what_moved(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["document_rotation"]
    row, view = row_of(manifest, 3), view_of(manifest, 3)
    count = int(row["rotation"][0])
    ((shown, moved),) = part(view, "rotation").rows
    assert (shown, flat(text(moved))) == (str(count), tokenizer.decode(row["target_ids"][:count].tolist()))
    assert sum(token.role == "moved" for token in part(view, "input").tokens) > 0


def test_rows_without_corruption_show_boundaries(shard_sets):
    view = view_of(shard_sets / "encode")
    row = row_of(shard_sets / "encode", 0)
    shown = part(view, "token_ids").tokens
    assert sum(token.role == "marker" for token in shown) == len(row["sentence_starts"])
    packed = next((shard_sets / "group").glob("packed-46-sep/train"))
    documents_seen = [text(part(view_of(packed, number), "ids").tokens).count("▌") for number in range(20)]
    assert documents_seen == [len(row_of(packed, number)["document_starts"]) for number in range(20)]


def test_provenance_names_document_source_and_url(shard_sets):
    by_uid = {document.uid: document for document in documents()}
    for path in ("encode", "corrupt/masked_lm/heldout", "corrupt/span_corruption/train"):
        facts = {text(name): text(value) for name, value in part(view_of(shard_sets / path, 2), "where").rows}
        document = by_uid[bytes.fromhex(facts["document"][:32])]
        assert facts["source"] == f"{document.source}, record at {document.offset:,}, 900 long"
        assert facts["url"] == document.url
        assert facts["language"] == "en"


def test_the_terminal_shows_text_as_text(shard_sets, capsys):
    manifest, _ = example_sets(shard_sets)["causal_lm"]
    for number in range(len(open_shards(manifest))):
        if "[red]text[/red]" in text(part(view_of(manifest, number), "input_ids").tokens):
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
            cells = [found.tokens] if isinstance(found, Passage) else [cell for row in found.rows for cell in row]
            assert all(text(cell) in shown for cell in cells)
            assert found.title in shown
        texts += shown
    assert "<script>alert" in texts
    assert "http://site.example/" in texts
    assert MEANINGS["masked"] in texts
    assert capsys.readouterr().out.count("page: ") == 2 + len(rows[:8])


def test_a_single_shard_counts_its_own_rows(shard_sets):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    shards = open_shards(manifest)
    first = shards.manifest.shards[0].rows
    assert view_of(shards.shard_path(1), 4) == view_of(manifest, first + 4)
    tar, _ = example_sets(shard_sets)["span_corruption"]
    assert view_of(next(tar.parent.glob("*00000-of*.tar")), 0).title.startswith("span_corruption/train · row 0 of")


def test_long_rows_are_cut(shard_sets):
    shown = text(part(view_of(shard_sets / "encode", 0, limit=10), "token_ids").tokens)
    assert "more tokens" in shown
    assert len(shown) < 120


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    cases = [
        ([str(tmp_path / "none.json")], 74, "no shard set here"),
        ([str(manifest), "--sample", "212"], 64, "has 212 rows, numbered from 0"),
        ([str(manifest), "--sample", "-1"], 64, "expected a whole number, 0 or more"),
        ([str(manifest), "--tokens", "0"], 64, "expected a number above 0"),
        ([str(manifest.parent / "shard-9.arrow")], 64, "names no such shard"),
        ([str(manifest), "--tokenizer", str(tmp_path)], 64, "no tokenizer here"),
    ]
    for arguments, code, message in cases:
        assert main(arguments) == code
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error


def test_another_tokenizer_is_refused_and_a_corrupt_block_is_named(shard_sets, tmp_path, capsys):
    output = shutil.copytree(shard_sets, tmp_path / "out")
    manifest, _ = example_sets(output)["masked_lm"]
    vocabulary = output / "train_tokenizer" / "tokenizer" / "vocabulary.json"
    plain = json.loads(vocabulary.read_text())
    vocabulary.write_text(json.dumps({**plain, "fingerprint": "0" * 64}))
    assert main([str(manifest)]) == 64
    assert "made with the tokenizer" in capsys.readouterr().err
    shards = open_shards(manifest)
    path = shards.shard_path(0)
    raw = bytearray(path.read_bytes())
    raw[int(shards.index.offset[0]) + 600] ^= 1
    path.write_bytes(raw)
    assert main([str(manifest)]) == 65
    assert f"{path}: block 0" in capsys.readouterr().err


def test_an_example_that_contradicts_itself_is_shown_with_the_reason(shard_sets):
    from pipeline.objectives import build_objective
    from pipeline.rows import Row
    from tools.inspect_shard import _restored
    from tools.viewer.passages import Passages
    from tools.viewer.pieces import Pieces

    manifest, _ = example_sets(shard_sets)["bart"]
    facts = open_shards(manifest).manifest.objective
    row = row_of(manifest, 0)
    target = row["target_ids"].copy()
    target[0] += 1
    wrong = Row(row.fixed, {**row.columns, "target_ids": target})
    show = Passages(Pieces(load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")), 100)
    objective = build_objective({"name": facts.name, **facts.options}, show.pieces.vocabulary, facts.label)
    (sheet,) = _restored(facts, wrong, show)
    assert isinstance(sheet, Sheet)
    with pytest.raises(ValueError) as error:
        objective.uncorrupt(wrong)
    assert sheet.rows == (("not possible", str(error.value)),)
