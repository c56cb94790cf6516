"""The parts of rows with labels, against the columns of the row."""

from __future__ import annotations

from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import flat, part, row_of, rows_and_views, sample_text, text
from tests.tools.small_run import example_sets


def test_the_prefix_is_marked_and_explained(shard_sets):
    for row, view in rows_and_views(shard_sets, "unilm"):
        facts = dict(part(view, "attention").rows)
        prefix = int(row["prefix_length"][0])
        assert facts["last position of the prefix"] == str(prefix - 1)
        assert "the prefix" in facts["a position reads"]
        roles = [token.role for token in part(view, "input").tokens]
        first_plain = roles.index("plain") if "plain" in roles else len(roles)
        assert "prefix" not in roles[first_plain:]


def test_spans_stand_between_their_boundaries(shard_sets):
    for row, view in rows_and_views(shard_sets, "span_boundary"):
        spans = part(view, "spans")
        assert [int(cells[0]) for cells in spans.rows] == row["span_starts"].tolist()
        originals = [text(cells[1]) for cells in part(view, "labels").rows]
        assert len(originals) == sum(row["span_lengths"].tolist())
        if row["span_starts"][0] == 1:
            assert text(spans.rows[0][1]) == "<cls>"


def test_the_second_view_is_the_crop_in_its_frame(shard_sets):
    for row, view in rows_and_views(shard_sets, "corrective_lm"):
        shown = part(view, "second view")
        assert shown.title.endswith(f"({int(row['crop_length'][0]) + 2:,} tokens)")
        tokens = [token.text for token in shown.tokens]
        assert (tokens[0], tokens[-1]) == ("<cls>", "<sep>")
        assert "<mask>" not in tokens


def test_rows_of_a_mixture_show_what_their_own_part_has(shard_sets):
    found = set()
    for row, view in rows_and_views(shard_sets, "unilm_mixture"):
        restricted = len(row["attention"]) == 1
        assert any(part.title == "attention" for part in view.parts) == restricted
        found.add(restricted)
    assert found == {True, False}


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
            assert shown[0].role == what
            kinds.add(what)
        original = flat(text(part(view, "original").tokens)).replace("▌", "").replace("|", "")
        assert original == f"<cls>{sample_text(shard_sets, 'masked_lm', number, tokenizer)}<sep>"
        marked = [token for token in part(view, "input").tokens if token.role in ("masked", "replaced", "kept")]
        assert len(marked) == len(row["label_ids"])
    assert kinds == {"masked", "replaced", "kept"}
    assert {token.role for token in view.legend()} >= {"masked", "special"}
