from __future__ import annotations

from pathlib import Path

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import part
from tests.train.data.sets.test_stored_scores import write_scores
from tests.train.masked_set import write_masked_sets


def test_the_best_classes_stand_next_to_their_label(tmp_path: Path) -> None:
    """Stored are the label with label / 64, and the id before it with 1 / 4."""
    manifest = write_masked_sets(tmp_path / "sets", rows=41, heldout=3)
    shards = open_shards(manifest)
    scores = write_scores(tmp_path / "scores", shards)
    shown = part(view_of(manifest, 5, columns=scores), "best scores of the teacher")
    labels = shards.read_block(0).row(5)["label_ids"].tolist()
    assert len(shown.rows) == len(labels) > 0
    for (label, best), number in zip(shown.rows, labels, strict=True):
        entries = sorted([(number / 64, str(number)), (0.25, str(number - 1))], reverse=True)
        assert label.strip() == str(number)
        assert [entry.split() for entry in best.split(" · ")] == [[name, f"{share:.3f}"] for share, name in entries]
    titles = [one.title for one in view_of(manifest, 5).parts]
    assert "best scores of the teacher" not in titles
