import json

import pytest

from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import ManifestError, ShardInfo, base_columns, open_shards, write_manifest, write_shard
from tests.shard_sets import IDS, TOKENIZER, objective, rows, toy_set


def test_labels_predicted_at_their_own_place_are_not_written_down(tmp_path):
    """Manifests from before `predict_from` keep their text and their digest."""
    plain = objective("encoder")
    same = {**plain, "frame": {**plain["frame"], "predict_from": "same"}}
    previous = {**plain, "frame": {**plain["frame"], "predict_from": "previous"}}
    sets = [toy_set(tmp_path / str(n), [3], objective=facts) for n, facts in enumerate((plain, same, previous))]
    texts = [(tmp_path / str(n) / "manifest.json").read_text() for n in range(3)]
    assert texts[0] == texts[1]
    assert "predict_from" not in texts[0]
    assert sets[0].digest == sets[1].digest != sets[2].digest
    assert [one.manifest.objective.frame.predict_from for one in sets] == ["same", "same", "previous"]


def test_shards_of_many_tasks_merge_to_one_set(tmp_path):
    """Each shard is written alone and leaves its record; the last task merges the records, in any order of writing."""
    columns = [*base_columns(), IDS]
    facts = []

    def write(folder, order):
        records = {}
        for number in order:
            name = f"shard-{number}.arrow"
            content = rows(range(10 * number + 1, 10 * number + 8), 6)
            with Output(folder).file(f"set/{name}") as path:
                info = write_shard(path, content, columns, block_rows=4, name=name)
            records[number] = json.dumps(info.to_json())
        with pytest.raises(Exception, match="no shard set here"):
            open_shards(folder / "set")
        shards = [ShardInfo.from_json(json.loads(records[number])) for number in sorted(records)]
        options = {"name": "n", "kind": "samples", "seed": 1, "tokenizer": TOKENIZER, "columns": columns}
        output = Output(folder)
        for _ in range(2):  # a merge that is done again ends the same
            write_manifest(
                folder / "set", shards=shards, output=output, block_rows=4, container="arrow", codec="none", **options
            )
        assert sorted(output.files) == ["set/index.arrow", "set/manifest.json"]
        assert not list(folder.rglob("*.tmp"))
        facts.append((folder / "set/manifest.json").read_bytes())
        return open_shards(folder / "set", verify="shard").digest

    assert write(tmp_path / "a", [0, 1, 2]) == write(tmp_path / "b", [2, 0, 1])
    assert facts[0] == facts[1]


def test_facts_that_are_refused_when_written(tmp_path):
    with pytest.raises(ManifestError, match="colour"):
        toy_set(tmp_path, [3], colour="red")
    assert not (tmp_path / "manifest.json").exists()


def test_what_no_reader_would_find_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("clozeline.pipeline.shards.writer.SIZE_LIMIT", 3000)
    toy_set(tmp_path / "small", [3])
    with pytest.raises(ManifestError, match=r"refusing to write a manifest of .* bytes, 3000 are read"):
        toy_set(tmp_path / "large", [3], config={"notes": "x" * 1500})
    assert not (tmp_path / "large/manifest.json").exists()
