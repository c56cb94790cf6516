"""Examples with right hashes and a wrong token are found against their samples."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import main
from tests.tools.rewritten_set import at, changed, fails, rewrite
from tests.tools.small_run import example_sets


@pytest.mark.parametrize(
    ("label", "column", "place"),
    [
        ("masked_lm", "label_ids", 0),
        ("causal_lm", "input_ids", 3),
        ("span_corruption", "target_ids", 1),
        ("span_corruption", "input_ids", 0),
        ("bart", "target_ids", 2),
        ("document_rotation", "input_ids", 4),
        ("text_infilling", "target_ids", 0),
        ("whole_word_masking", "label_ids", 0),
        ("xlnet", "input_ids", 0),
        ("replaced_token_detection", "label_ids", 1),
    ],
)
def test_a_changed_id_with_right_hashes_is_found_against_the_samples(output, capsys, label, column, place):
    shards = open_shards(example_sets(output)[label][0])
    block, row = 2, 5
    rows = shards.read_block(block)
    old = int(rows.columns[column][row][place])
    special = {*shards.manifest.tokenizer.special_ids.values(), *shards.manifest.tokenizer.sentinels}
    new = next(token for token in range(599, 0, -1) if token != old and token not in special)
    manifest, samples = rewrite(output, label, at(block, lambda rows: changed(rows, column, row, place, new)))
    assert main([str(manifest)]) == 0
    capsys.readouterr()
    error = fails(capsys, manifest, "--against", samples)
    assert f"block {block}: row {row} (sample {int(rows.fixed['uid'][row]):016x}, variant 0" in error
    assert str(manifest.parent) in error


def test_examples_that_are_missing_are_counted(output, capsys):
    manifest, samples = rewrite(output, "causal_lm", at(6, lambda rows: rows.take(np.arange(len(rows) - 1))))
    assert main([str(manifest)]) == 0
    assert "examples + skipped" in fails(capsys, manifest, "--against", samples)


def test_sets_that_do_not_belong_together_are_refused(shard_sets, capsys):
    sets = example_sets(shard_sets)
    manifest, _ = sets["masked_lm"]
    for other, message in [(sets["causal_lm"][1], "come from the sample set packed-46-sep/train"),
                           (sets["causal_lm"][0], "expected a sample set, got one of examples")]:  # fmt: skip
        assert main([str(manifest), "--against", str(other)]) == 64
        assert message in capsys.readouterr().err
    assert main([str(sets["masked_lm"][1]), "--against", str(sets["masked_lm"][1])]) == 64
    assert "expected an example set, got a set of samples" in capsys.readouterr().err
