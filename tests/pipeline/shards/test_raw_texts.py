import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.shards import ManifestError, open_shards


@pytest.mark.parametrize("name", ["posts.parquet", "posts.jsonl", "texts"])
def test_texts_in_place_of_a_set_are_answered_with_the_command_that_makes_one(tmp_path, name):
    path = tmp_path / name
    if path.suffix:
        path.write_text('{"text": "one"}\n', encoding="utf-8")
    else:
        path.mkdir()
        (path / "a.txt").write_text("one", encoding="utf-8")
    with pytest.raises(ManifestError if path.suffix else StorageError) as caught:
        open_shards(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: not a manifest" if path.suffix else f"{path}/manifest.json: no shard set here")
    assert f"`clozeline pipeline --config recipe:demo input={path} output=shards`" in said
    assert "shards/corrupt/masked_lm/train" in said


def test_a_set_that_is_missing_or_damaged_is_no_text(tmp_path):
    (tmp_path / "set").mkdir()
    for wanted in (tmp_path / "nothing", tmp_path / "set"):
        with pytest.raises(StorageError):
            open_shards(wanted)
    (tmp_path / "set" / "shard-00000.arrow").write_text("", encoding="utf-8")
    with pytest.raises(StorageError):
        open_shards(tmp_path / "set")
    (tmp_path / "set" / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(ManifestError):
        open_shards(tmp_path / "set")
