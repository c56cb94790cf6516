from __future__ import annotations

from tests.pipeline.dedup.dedup_documents import EXACT, document, prose


def test_a_kept_document_is_unchanged_and_order_is_the_source_order(run_dedup):
    rows = [document(n, f"text {n % 7}", language="en", extra={"n": n}, url=f"http://h/{n}") for n in range(20)]
    result = run_dedup([rows[:9], [], rows[9:]], EXACT)
    stays = {row.uid for row in result.documents()}
    assert result.documents() == [row for row in rows if row.uid in stays]
    assert len(stays) == 7


def test_a_copy_names_the_document_that_is_kept_in_the_end(run_dedup):
    base = prose(5)
    rows = [document(0, base), document(1, base), document(2, base + " and longer")]
    result = run_dedup([rows], {})
    assert {row.detail for row in result.rejections().values()} == {rows[2].uid.hex()}


def test_characters_kept_are_those_of_both_sides(run_dedup):
    base = prose(6)
    rows = [document(n, base, target_text="ja" * n) for n in (1, 1, 2)]
    rows = [row.replace(uid=bytes([number]) * 16) for number, row in enumerate([*rows, document(9, "other")])]
    result = run_dedup([rows[:2], rows[2:]], EXACT, shards=2)
    sizes = {row.uid: len(row.text) + len(row.target_text or "") for row in rows}
    stays = {row.uid for row in result.documents()}
    counts = result.counts
    assert counts["characters_out"] == sum(sizes[uid] for uid in stays)
    assert set(result.rejections()) == {rows[1].uid}
