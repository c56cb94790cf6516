"""Folders of tokenizers: those of ours, and the small files of published ones that are kept."""

from pathlib import Path

import pytest
from transformers import TokenizersBackend
from transformers.models.auto.tokenization_auto import (
    TOKENIZER_MAPPING_NAMES,
    tokenizer_class_from_name,
)

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.published import folders
from clozeline.pipeline.tokenize.published.folders import (
    SOURCE,
    copy_source_files,
    end_ids,
    find_clozeline_tokenizer,
    published_files,
)
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.character import Character
from tests.pipeline.task_files import write_vocabulary
from tests.refusals import refused


@pytest.fixture
def ours(tmp_path):
    """A tokenizer where the pipeline puts it."""
    folder = tmp_path / "out" / "train_tokenizer" / "tokenizer"
    import_tokenizer(write_vocabulary(tmp_path / "words"), folder)
    return folder


def test_its_own_folder_an_output_and_an_imported_model(ours, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer").symlink_to(ours)
    own = {"name", "published.json", "tokenizer.json", "vocabulary.json"}

    for folder in (ours, ours.parents[1], ours.parent, model):
        found = find_clozeline_tokenizer(folder)
        assert found.algorithm == "tokenizer_json"
        names = {str(path.relative_to(found.folder)) for path in found.files}
        assert {name for name in names if not name.startswith("source/")} == own < names

    for folder in (write_vocabulary(tmp_path / "published"), tmp_path, tmp_path / "nowhere"):
        assert find_clozeline_tokenizer(folder) is None


@pytest.mark.parametrize("name", ["name", "vocabulary.json"])
def test_one_of_ours_that_lacks_a_file_is_not_taken_for_a_published_one(ours, tmp_path, name):
    (ours / name).unlink()
    with pytest.raises(IntegrityError, match=rf"tokenizer/{name}: .*copy it again"):
        import_tokenizer(ours, tmp_path / "copy")


def test_importing_ours_is_a_copy_to_which_an_imported_one_adds_tokens(ours, tmp_path):
    """One that was trained here takes no keys."""
    copied = import_tokenizer(ours, tmp_path / "copy")
    for path in filter(Path.is_file, ours.rglob("*")):
        assert (tmp_path / "copy" / path.relative_to(ours)).read_bytes() == path.read_bytes()

    assert copied.vocabulary.folder == tmp_path / "copy"

    size = copied.vocabulary.size

    assert (
        import_tokenizer(ours, tmp_path / "other", add=["bos"]).vocabulary.specials["bos"] == size
    )

    again = import_tokenizer(
        tmp_path / "other", tmp_path / "third", specials={"eos": "[SEP]"}, pad_by_eos=True
    )

    assert again.vocabulary.specials == {**copied.vocabulary.specials, "bos": size, "eos": 3}

    with refused("leave out tokenizer_class"):
        import_tokenizer(ours, tmp_path / "fourth", tokenizer_class="BertTokenizer")
    folder = tmp_path / "trained"
    save_tokenizer(
        Character.train(["the cat"], Character.Options(size=500), folder), "character", folder
    )

    assert (
        import_tokenizer(folder, tmp_path / "fifth", pad_by_eos=True).vocabulary.specials["pad"]
        == 0
    )

    with refused("leave out add"):
        import_tokenizer(folder, tmp_path / "sixth", add=["bos"])


def kept(source, folder):
    folder.mkdir()
    copy_source_files(source, folder)
    return {str(file) for file in published_files(folder)}


def test_files_of_every_tokenizer_class_are_kept(tmp_path):
    found = map(tokenizer_class_from_name, filter(None, TOKENIZER_MAPPING_NAMES.values()))
    classes = [one for one in found if isinstance(one, type) and issubclass(one, TokenizersBackend)]
    names = {name for one in classes for name in (one.vocab_files_names or {}).values()}
    names |= {"additional_chat_templates/rag.jinja", "generation_config.json", "config.json"}
    left = {
        "model.safetensors",
        "pytorch_model.bin",
        "tokenization_own.py",
        "preprocessor_config.json",
        "README.md",
    }
    for name in (*names, *left):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)

    assert len(names) > 12
    assert kept(tmp_path / "in", tmp_path / "out") == names


def test_a_link_out_of_the_folder_is_refused_and_one_of_a_hub_cache_is_read(tmp_path):
    cache = tmp_path / "models--a--b"
    snapshot = cache / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "blobs" / "77").write_text("{}")
    (snapshot / "tokenizer.json").symlink_to(Path("../../blobs/77"))

    assert kept(snapshot, tmp_path / "out") == {"tokenizer.json"}
    assert not (tmp_path / "out" / SOURCE / "tokenizer.json").is_symlink()

    (tmp_path / "secret").write_text("key")
    (snapshot / "chat_template.jinja").symlink_to(tmp_path / "secret")
    with refused(r"chat_template\.jinja"):
        kept(snapshot, tmp_path / "other")


def test_a_file_that_is_no_tokenizer_by_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_MOST_FILE_BYTES", 3)
    (tmp_path / "vocab.txt").write_text("abcd")
    (tmp_path / "out").mkdir()

    with refused("a file of a tokenizer has at most 3 bytes, this one has 4"):
        copy_source_files(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("stated", "ids"),
    [
        ("null", {7}),
        ("2", {2}),
        ("[2, 5]", {2, 5}),
        *[(wrong, None) for wrong in ('"</s>"', '[1, "2"]', "true", "[-1]", "{}", "1.5", "")],
    ],
)
def test_ids_that_end_a_text(tmp_path, stated, ids):
    (tmp_path / SOURCE).mkdir()
    (tmp_path / SOURCE / "generation_config.json").write_text(f'{{"eos_token_id": {stated}}}')

    assert end_ids(None, [7]) == {7}

    if ids is not None:
        assert end_ids(tmp_path, [7]) == ids
        return

    with pytest.raises((ConfigurationError, IntegrityError), match=r"generation_config\.json"):
        end_ids(tmp_path, [7])
