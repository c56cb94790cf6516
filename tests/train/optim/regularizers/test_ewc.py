"""Elastic weight consolidation: anchors and strengths from a file of `clozeline fisher`."""

import pytest
import torch
from safetensors.torch import save_file

from clozeline.errors import IntegrityError
from clozeline.train.registries import REGULARIZERS
from tests.refusals import refused


def options(folder):
    """Options for the contract test, with a file for a parameter of six elements."""
    save_file(
        {
            "weight/a": torch.arange(6.0),
            "fisher/a": torch.arange(6.0) / 10,
        },
        folder / "fisher",
    )
    return {"fisher": str(folder / "fisher"), "strength": 10.0}


def ewc_anchor(path, name="a", *, start=0, fresh=False):
    return (
        REGULARIZERS.resolve({"name": "ewc", "fisher": str(path), "strength": 10.0})
        .build()
        .anchor(name, torch.full((4,), 9.0), start, fresh=fresh)
    )


def test_anchors_are_weights_of_the_file_and_strengths_its_squares(tmp_path):
    path = tmp_path / "fisher"
    save_file(
        {
            "weight/a": torch.arange(6.0).view(2, 3),
            "fisher/a": torch.arange(6.0).view(2, 3) / 10,
        },
        path,
    )
    found = ewc_anchor(path, start=1)

    assert found.anchor.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.strength.tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])

    free = ewc_anchor(path, "heads.new", fresh=True)

    assert free.strength.tolist() == [0.0] * 4


def test_other_files_are_refused(tmp_path):
    with refused(r"is not a file; `clozeline fisher RUN output="):
        ewc_anchor(tmp_path / "none")
    (tmp_path / "damaged").write_bytes(b"no tensors")
    with pytest.raises(IntegrityError, match=r"damaged: .*write it again"):
        ewc_anchor(tmp_path / "damaged")
    save_file(
        {
            "weight/a": torch.zeros(3),
            "fisher/a": torch.zeros(3),
        },
        tmp_path / "other",
    )
    with refused("weight/a ends before element 4"):
        ewc_anchor(tmp_path / "other")
    with refused("has no weight/b; measure the run"):
        ewc_anchor(tmp_path / "other", "b")
