"""Nearest vectors by hand."""

import json

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.inference.feature_files import Extraction, Features, write_features
from clozeline.tools.runs.neighbors import NeighborOptions, find_neighbors, main
from clozeline.train.open_run import open_run
from tests.train.written_runs import write_run


def features():
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [3, 0], [1, 1], [0, 0], [-1, 0]], np.float32)
    words = ["play", "play", "see", "play", "see", "play", "play"]
    return Features(["a", "b", "c", "a", "d", "e", "f"], [0, 1, 2, 3, 4, 5, 6], words, vectors, {})


def test_neighbours_are_those_of_other_texts_by_cosine():
    found = find_neighbors(features(), NeighborOptions(query=0))
    assert [one["row"] for one in found] == [1, 4, 2, 5, 6]
    cosines = [2 / np.hypot(2, 0.1), 1 / np.sqrt(2), 0, 0, -1]
    assert [one["cosine"] for one in found] == pytest.approx(cosines)
    assert found[0] == {"row": 1, "uid": "b", "position": 1, "text": "play", "cosine": pytest.approx(cosines[0])}
    assert [one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, same=True))] == [1, 5, 6]
    assert [one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, top=2))] == [1, 4]
    with pytest.raises(ConfigurationError, match="query: expected a row index below 7, got 7"):
        find_neighbors(features(), NeighborOptions(query=7))


def test_the_command_prints_the_nearest_rows(tmp_path, shard_sets, capsys):
    write_run(tmp_path / "run", shard_sets, [3], 1)
    trained, chosen = open_run(tmp_path / "run"), Extraction("table", "first_subword", "f32", 40)
    texts = [(f"texts.jsonl:{line}", "the page of the book") for line in range(3)]
    write_features(tmp_path / "features", trained, trained.objectives[0], texts, chosen, {})
    assert main([str(tmp_path / "features"), "query=1", "same=true", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query"] == {"row": 1, "uid": "texts.jsonl:0", "position": 1, "text": "page"}
    assert [(one["row"], round(one["cosine"], 5)) for one in found["neighbours"]] == [(6, 1), (11, 1)]
    assert main([str(tmp_path / "features"), "query=1", "top=2"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["query", "1.0000", "1.0000"]
