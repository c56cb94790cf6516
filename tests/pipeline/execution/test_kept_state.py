from __future__ import annotations

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.kept_state import KeptState


def test_what_is_kept_counts_for_the_same_configuration_only(tmp_path):
    state = KeptState.load(tmp_path).with_stage("balance", "one", {"en": {"a": "3/2"}})
    state.save(tmp_path)
    read = KeptState.load(tmp_path)
    assert read.of("balance", "one") == {"en": {"a": "3/2"}}
    assert read.of("balance", "two") is None
    assert read.of("encode", "one") is None
    assert read.with_stage("balance", "one", {}).of("balance", "one") == {"en": {"a": "3/2"}}
    assert read.with_stage("balance", "two", {"en": {}}).of("balance", "two") == {"en": {}}


def test_a_damaged_file_is_refused_and_can_be_removed(tmp_path):
    KeptState().with_stage("tokenizer", "one", "key").save(tmp_path)
    path = tmp_path / "kept.json"
    path.write_text(path.read_text().replace("key", "yek"))
    with pytest.raises(IntegrityError, match="rebalance=true"):
        KeptState.load(tmp_path)
    KeptState.remove(tmp_path)
    assert KeptState.load(tmp_path) == KeptState()
