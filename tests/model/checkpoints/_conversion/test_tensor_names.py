import pytest
import torch

from clozeline.errors import WeightsError
from clozeline.model.checkpoints._conversion.tensor_names import Renaming

KNOWN = {"body.a.weight", "body.norm.weight", "body.norm.bias", "head.bias"}
RENAMING = Renaming(KNOWN, "body.", ("wrapped.",), (r"^(body\.)?pooler\.",), (r"position_ids$",))


def renamed(*names):
    return RENAMING.apply({name: torch.tensor(float(number)) for number, name in enumerate(names)}, "FILE")


def test_unknown_names_are_all_listed():
    with pytest.raises(WeightsError, match=r"FILE: 2 tensors .*: classifier.bias, qa_outputs.weight"):
        renamed("a.weight", "qa_outputs.weight", "classifier.bias")


def test_a_wrapper_is_on_every_name_or_on_none():
    with pytest.raises(WeightsError, match=r"module\.a\.weight"):
        renamed("module.a.weight", "head.bias")


def test_two_names_of_one_tensor_are_refused():
    with pytest.raises(WeightsError, match=r"norm\.gamma and body\.norm\.weight are both body\.norm\.weight"):
        renamed("norm.gamma", "body.norm.weight")
