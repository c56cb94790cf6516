"""Files of tensors, in every form; what is no tensor is never made."""

import itertools
import json
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import WeightsError
from clozeline.extensions.published.conversion.tensor_files import read_tensors
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.checkpoints.tensor_files import check_values
from tests.extensions.published.peers import same, saved

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}


class Weapon:
    """Runs a program where a pickle of it is read by an ordinary loader."""

    def __reduce__(self):
        return print, ("unpickled",)


def refused(folder):
    with pytest.raises(WeightsError) as caught:
        read_tensors(folder)
    return str(caught.value)


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict"])
@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files(tmp_path, wrapper, zipped):
    plain = {wrapper: TENSORS, "epoch": 3} if wrapper else TENSORS
    torch.save(plain, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    found, files = read_tensors(tmp_path)
    assert same(found, TENSORS)
    assert files == [tmp_path / "pytorch_model.bin"]


@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
def test_parts_with_an_index(tmp_path, kind):
    stem, ending = kind.split(".")
    listed = {}

    for number, name in enumerate(TENSORS):
        file = f"{stem}-{number}.{ending}"
        part = {name: TENSORS[name]}
        save_file(part, tmp_path / file) if ending == "safetensors" else torch.save(
            part, tmp_path / file
        )
        listed[name] = file

    index = tmp_path / f"{kind}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": listed}))

    assert same(read_tensors(tmp_path)[0], TENSORS)

    index.write_text(json.dumps({"weight_map": {**listed, "c": listed["b"]}}))

    assert "lacks c, contrary to" in refused(tmp_path)

    index.write_text(json.dumps({"weight_map": {"a": listed["a"]}}))

    assert same({**read_tensors(tmp_path)[0], "b": TENSORS["b"]}, TENSORS)

    index.write_text(json.dumps({"weight_map": listed}))
    (tmp_path / listed["b"]).unlink()

    assert "missing; the index lists it" in refused(tmp_path)

    for wrong in ({"a": "../other"}, {"a": "/etc/passwd"}, {"a": ".hidden"}):
        index.write_text(json.dumps({"weight_map": wrong}))
        assert "name of a file next to the index" in refused(tmp_path)

    index.write_text(json.dumps({"weight_map": [1]}))

    assert "weight_map" in refused(tmp_path)


def test_safetensors_win_over_torch_files(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    torch.save({"other": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    assert same(read_tensors(tmp_path)[0], TENSORS)


def test_classes_are_never_loaded(tmp_path, capsys):
    torch.save({"a": Weapon()}, tmp_path / "pytorch_model.bin")
    assert "classes, which are never loaded" in refused(tmp_path)
    assert "unpickled" not in capsys.readouterr().out


def test_torn_files_are_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path)
    path.write_bytes(path.read_bytes()[:200])

    assert str(path) in refused(tmp_path)

    path.unlink()
    save_file(TENSORS, tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 16)

    assert "not a valid safetensors file" in refused(tmp_path)


def test_other_objects_are_refused(tmp_path):
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    assert "expected tensors by name, got list" in refused(tmp_path)
    torch.save({"a": 3}, tmp_path / "pytorch_model.bin")
    assert "a: expected a tensor, got int" in refused(tmp_path)


def test_a_small_file_does_not_become_a_large_tensor(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.ones(1).expand(10**6, 10**3)}, path)

    assert "larger than its stored values" in refused(tmp_path)

    torch.save({"a": torch.zeros(10**6)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)

    assert "would grow to" in refused(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_list_of_tensors_that_fills_the_memory_is_refused_before_it_is_read(tmp_path, zipped):
    """A list in a list in a list: 5 MB, of which the loader makes some hundred MB in many
    seconds."""
    pickled = b"\x80\x02" + b"]" * (5 << 20) + b"."

    if zipped:
        with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
            archive.writestr("archive/version", "3")
    else:
        (tmp_path / "pytorch_model.bin").write_bytes(pickled)

    with pytest.raises(WeightsError, match="its list of tensors has more than"):
        read_tensors(tmp_path)


def test_a_large_torch_file_of_few_tensors_is_read(tmp_path):
    tensors = {"a": torch.ones(3 << 20), "b": torch.zeros(2)}
    for zipped in (True, False):
        torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        same(read_tensors(tmp_path)[0], tensors)


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "other.txt").write_text("")
    assert "the folder has other.txt" in refused(tmp_path)


def test_legacy_files_give_the_same_model(tmp_path):
    """A torch file of the first years: nested, wrapped for several devices, with the norms' former
    names."""
    saved(tmp_path, "bert")
    present = read_checkpoint(tmp_path).tensors
    path = tmp_path / "model.safetensors"
    old = {}

    for name, tensor in load_file(path).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )
        old[f"module.{name}"] = tensor

    old["module.bert.embeddings.position_ids"] = torch.arange(20)[None]
    path.unlink()
    torch.save({"state_dict": old}, tmp_path / "pytorch_model.bin")
    found = read_checkpoint(tmp_path)

    assert found.notes == ()
    assert same(found.tensors, present)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *itertools.product(
            [float("nan"), float("inf"), float("-inf")], [torch.float32, torch.bfloat16]
        ),
        (1e300, torch.float64),
    ],
)
def test_one_value_that_is_not_finite_is_refused(value, dtype):
    tensors = {"fine": torch.ones(3, dtype=dtype), "empty": torch.ones(0, dtype=dtype)}
    check_values(tensors, "model.safetensors")
    tensors["wrong"] = torch.tensor([[1.0, -2.0], [value, 0.5]], dtype=dtype)

    with pytest.raises(
        WeightsError, match=r"model\.safetensors: wrong: 1 of 4 values are nan or infinite"
    ):
        check_values(tensors, "model.safetensors")
