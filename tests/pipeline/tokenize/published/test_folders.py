from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.published.folders import own_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.character import Character
from tests.pipeline.task_files import make_sets, write_vocabulary


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A tokenizer where the pipeline puts it."""
    folder = tmp_path / "out" / "train_tokenizer" / "tokenizer"
    import_tokenizer(write_vocabulary(tmp_path / "words"), folder)
    return folder


def test_its_own_folder_an_output_and_an_imported_model(ours: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer").symlink_to(ours)
    for place in (ours, ours.parents[1], ours.parent, model):
        found = own_tokenizer(place)
        assert found is not None
        assert found.kind == "tokenizer_json"
        names = {str(path.relative_to(found.folder)) for path in found.files}
        own = {"name", "published.json", "tokenizer.json", "vocabulary.json"}
        assert own < names
        assert {name for name in names - own if not name.startswith("source/")} == set()


@pytest.mark.parametrize("name", ["name", "vocabulary.json"])
def test_one_of_ours_that_lacks_a_file_is_not_taken_for_a_published_one(ours: Path, tmp_path: Path, name: str) -> None:
    (ours / name).unlink()
    with pytest.raises(IntegrityError, match=rf"tokenizer/{name}: .*copy it again"):
        import_tokenizer(ours, tmp_path / "copy")


def test_a_published_one_is_none_of_ours(tmp_path: Path) -> None:
    assert own_tokenizer(write_vocabulary(tmp_path)) is None
    assert own_tokenizer(tmp_path) is None
    assert own_tokenizer(tmp_path / "nowhere") is None


@pytest.mark.parametrize("listed", [False, True])
def test_a_run_leads_to_the_tokenizer_of_its_shards(tmp_path: Path, listed: bool) -> None:
    sets, run = make_sets(tmp_path / "sets"), tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    shards = f"[{sets / 'train'}]" if listed else str(sets / "train" / "manifest.json")
    (run / "config.yaml").write_text(f"data: {{shards: {shards}}}\n", encoding="utf-8")
    found = own_tokenizer(run)
    assert found is not None
    assert found.files[0].parent == tmp_path / "sets" / "out" / "tokenizer" / "tokenizer"
    (run / "config.yaml").write_text("data: {}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="names no shards"):
        own_tokenizer(run)
    (run / "config.yaml").write_text(f"data: {{shards: {tmp_path / 'gone'}}}\n", encoding="utf-8")
    with pytest.raises(ClozelineError, match="gone"):
        own_tokenizer(run)


def test_importing_ours_is_a_copy_to_which_an_imported_one_adds_tokens(ours: Path, tmp_path: Path) -> None:
    copied = import_tokenizer(ours, tmp_path / "copy")
    for path in filter(Path.is_file, ours.rglob("*")):
        assert (tmp_path / "copy" / path.relative_to(ours)).read_bytes() == path.read_bytes()
    assert copied.vocabulary.folder == tmp_path / "copy"
    size = copied.vocabulary.size
    assert import_tokenizer(ours, tmp_path / "other", add=["bos"]).vocabulary.specials["bos"] == size
    again = import_tokenizer(tmp_path / "other", tmp_path / "third", specials={"eos": "[SEP]"}, pad_by_eos=True)
    assert again.vocabulary.specials == {**copied.vocabulary.specials, "bos": size, "eos": 3}
    with pytest.raises(ConfigurationError, match="takes no tokenizer_class"):
        import_tokenizer(ours, tmp_path / "fourth", tokenizer_class="BertTokenizer")


def test_one_that_was_trained_here_takes_no_keys(tmp_path: Path) -> None:
    folder = tmp_path / "trained"
    save_tokenizer(Character.train(["the cat"], Character.Options(size=500), folder), "character", folder)
    assert import_tokenizer(folder, tmp_path / "copy", pad_by_eos=True).vocabulary.specials["pad"] == 0
    with pytest.raises(ConfigurationError, match="takes no add"):
        import_tokenizer(folder, tmp_path / "other", add=["bos"])


@pytest.mark.parametrize("content", [b"\xff\xfe", b"data: {a: 1, a: 2}\n"], ids=["bytes", "keys"])
def test_a_run_with_a_damaged_configuration(tmp_path: Path, content: bytes) -> None:
    """It was a traceback."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"(?s)config\.yaml: is damaged .*; give the folder of its tokenizer"):
        own_tokenizer(tmp_path)
