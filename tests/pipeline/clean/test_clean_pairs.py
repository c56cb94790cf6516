"""Pairs of aligned texts through the stage `clean`: both sides, and no filter that was not meant for them."""

from __future__ import annotations

from pathlib import Path

import xxhash

from tests.pipeline.clean.cleaning import run_clean

FILTERED = {"language": {"name": "py3langid", "keep": ["fr"]}, "filters": ["gopher_quality"]}
LINES = ["It is\u00a0raining. \tEs  regnet. ", "I need an umbrella.\t \u0007", "Whales.\tWale.", "\tnichts"]


def pairs(tmp_path: Path, **entry: str) -> dict[str, object]:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return {"path": str(path), "source": "pairs", **entry}


def test_both_sides_are_normalised_and_no_filter_looks_at_them(tmp_path: Path) -> None:
    found = run_clean([pairs(tmp_path, language="en", target_language="de")], tmp_path / "out", FILTERED)
    first, second = found.documents
    assert (first.text, first.target_text) == ("It is\u00a0raining.", "Es  regnet.")
    assert (first.language, first.target_language, second.target_text) == ("en", "de", "Wale.")
    assert second.content_hash == xxhash.xxh3_128_digest(b"Whales.\0Wale.")
    assert found.nonzero("rejected") == {"empty_side": 2}
    assert found.nonzero("malformed") == {}
    assert [reject.reason for reject in found.rejects] == ["empty_side"] * 2
    counts = found.counts
    assert counts["characters_out"] == sum(len(one.text) + len(one.target_text or "") for one in found.documents)
