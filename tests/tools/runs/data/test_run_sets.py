"""Sets of a run at other paths than its configuration names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.data.run_sets import SetPaths, locate_sets, split_set_paths
from clozeline.train.configuration.data import DataConfig, PhaseConfig
from clozeline.train.data.sets.recorded_sets import record_sets
from clozeline.train.data.stream.phases import open_phases
from tests.tools.small_run import example_sets


def test_words_about_sets_are_taken_out() -> None:
    given, rest = split_set_paths(["rows=2", "data.shards=[a, b]", "data=c", "data.heldout=d"])
    assert (given.sets, given.heldout, rest) == ([Path("a"), Path("b")], Path("d"), ["rows=2", "data=c"])
    assert split_set_paths([])[0] == SetPaths()
    with pytest.raises(ConfigurationError, match=r"data\.shards"):
        split_set_paths(["data.shards={3: 4}"])


def test_sets_of_phases_are_recognized_by_their_digests(shard_sets: Path, tmp_path: Path) -> None:
    first, second = (example_sets(shard_sets)[name][0].parent for name in ("masked_lm", "whole_word_masking"))
    phases = [PhaseConfig(shards=first, until_samples=64), PhaseConfig(shards=[second, first])]
    data = DataConfig(phases=phases, global_batch=8, lanes=8)
    record_sets(tmp_path, data, open_phases(data))
    copies = [shutil.copytree(path, tmp_path / name) for path, name in ((first, "a"), (second, "b"))]
    found = locate_sets(tmp_path, data, SetPaths(shards=[*reversed(copies)]))
    assert [phase.sets for phase in found.all_phases.values()] == [[copies[0]], [copies[1], copies[0]]]
    with pytest.raises(ConfigurationError, match=r"data\.shards: .* reads whole_word_masking.* none of those given"):
        locate_sets(tmp_path, data, SetPaths(shards=copies[0]))
