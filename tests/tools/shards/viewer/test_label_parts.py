"""The parts of rows with labels, against the columns of the row."""

from __future__ import annotations

from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import flat, marked, part, row_of, rows_and_views, sample_text, text
from tests.tools.small_run import example_sets


def test_the_prefix_is_marked(shard_sets, tokenizer):
    for row, view in rows_and_views(shard_sets, "unilm"):
        prefix = int(row["prefix_length"][0])
        labels = set(row["label_positions"].tolist())
        expected = [token for at, token in enumerate(row["input_ids"][:prefix].tolist()) if at not in labels]
        found = "".join(shown for shown, role in marked(part(view, "input")) if role == "prefix")
        assert flat(found) == tokenizer.decode_part(expected)


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
            decoded = tokenizer.decode_part([label]).replace("\n", "⏎")
            expected = decoded if decoded.strip() else "␣" * len(decoded)
            assert text(original) == expected or "\ufffd" in decoded
            assert what == {3: "masked", label: "kept"}.get(token, "replaced")
            assert (text(shown) == "<mask>") == (what == "masked")
            assert [span.style for span in shown.spans] == [what]
            kinds.add(what)
        original = flat(part(view, "original").text.plain).replace("▌", "").replace("|", "")
        assert original == f"<cls>{sample_text(shard_sets, 'masked_lm', number, tokenizer)}<sep>"
        masks = sum(found.count("<mask>") for found, role in marked(part(view, "input")) if role == "masked")
        assert masks == row["input_ids"].tolist().count(3)
    assert kinds == {"masked", "replaced", "kept"}
