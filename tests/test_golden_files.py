"""Every version reads what earlier versions wrote: the golden files, one folder for each version.

The values next to the files are what the readers of that version found. `tests/golden_files.py`
says when the files may be made again. A reader that finds other values breaks the promise of
docs/formats.md, whatever its new values are.
"""

import json
import shutil
from pathlib import Path

import pytest

from clozeline.errors import ClozelineError
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from tests.golden_files import DATA, PLACEHOLDER, relocate
from tests.golden_readers import EXPECTED, READERS, read_checkpoints, read_sets, run_again

FOLDERS = sorted(DATA.glob("format_*"))
MOST_BYTES = 2 << 20
"""Size of the files of a version, which every clone of the repository holds."""
TOLERANCE = {"rel": 2e-3, "abs": 2e-4}
"""Losses and scores of small models on other processors; their scale is 1 to 6."""
CHANGED_STAGES = {"format_0.1": {"balance", "clean", "group"}}
"""version → stages whose algorithms have changed since: a recipe makes their units again"""
versions = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name, indirect=True)


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A copy of the files of a version, which hold its path; no test changes it."""
    copy = tmp_path_factory.mktemp("golden") / request.param.name
    shutil.copytree(request.param, copy)
    relocate(copy, PLACEHOLDER, str(copy))
    return copy


def differences(expected, found, where=""):
    """Yield where nested values differ: floats by more than rounding, all others at all."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, f"{where}/{number}")
    elif isinstance(expected, float) and isinstance(found, float):
        if found != pytest.approx(expected, **TOLERANCE):
            yield f"{where}: expected {expected}, got {found}"
    elif expected != found:
        yield f"{where}: expected {expected}, got {found}"


@versions
@pytest.mark.parametrize("name", READERS)
def test_a_reader_finds_what_was_written(folder, name):
    expected = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))[name]
    found = json.loads(json.dumps(READERS[name](folder)))

    assert expected
    assert [*differences(expected, found)] == []


@versions
def test_a_recipe_goes_on_where_it_was(folder):
    assert set(run_again(folder)) <= CHANGED_STAGES[folder.name]


@versions
def test_the_files_of_a_version_are_few_and_small(folder):
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MOST_BYTES


def test_there_are_golden_files():
    assert "format_0.1" in [folder.name for folder in FOLDERS]


# A changed file is not read as if it were the old one
# --------------------------------------------------------------------------------------------------


def seal(manifest):
    """Return the text of a manifest after a change, with its checksum."""
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    return manifest_text({**rest, "checksum": canonical_sha256(rest)})


@pytest.fixture
def copied_set(tmp_path):
    """A copy of a golden set, and its manifest as JSON."""
    folder = shutil.copytree(
        FOLDERS[0] / "sets" / "corrupt" / "masked_lm" / "train", tmp_path / "s"
    )
    return Path(folder), json.loads((Path(folder) / "manifest.json").read_text())


@pytest.mark.parametrize("key", ["columns", "index", "tokenizer", "block_rows"])
def test_a_renamed_key_is_refused(copied_set, key):
    folder, manifest = copied_set
    manifest[f"{key}_of_set"] = manifest.pop(key)
    (folder / "manifest.json").write_text(seal(manifest))

    with pytest.raises(ClozelineError, match=key):
        read_sets(folder)


def test_another_type_of_a_column_is_refused(copied_set):
    folder, manifest = copied_set
    (column,) = [each for each in manifest["columns"] if each["name"] == "input_ids"]
    column["arrow_type"] = "list<uint32>"
    (folder / "manifest.json").write_text(seal(manifest))

    with pytest.raises(ClozelineError):
        read_sets(folder)


def test_another_shape_of_a_parameter_is_refused(tmp_path):
    copy = Path(shutil.copytree(FOLDERS[0] / "runs" / "encoder", tmp_path / "runs" / "encoder"))
    (file,) = copy.glob("checkpoints/*/checkpoint.json")
    file.write_text(file.read_text().replace('"shape":[64,8]', '"shape":[8,64]'))

    with pytest.raises(ClozelineError, match="checksum"):
        read_checkpoints(tmp_path)
