import pytest
import torch

from clozeline.errors import WeightsError
from clozeline.extensions.published.conversion.tensor_files import Renaming

KNOWN = {"body.a.weight", "body.norm.weight", "body.norm.bias", "head.bias"}
RENAMING = Renaming(KNOWN, "body.", ("wrapped.",), (r"^(body\.)?pooler\.",), (r"position_ids$",))


def renamed(*names):
    return RENAMING.apply(
        {name: torch.tensor(float(number)) for number, name in enumerate(names)}, "FILE"
    )


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("a.weight", "qa_outputs.weight", "classifier.bias"),
            "FILE: 2 tensors .*: classifier.bias, qa_outputs.weight",
        ),
        (
            ("module.a.weight", "head.bias"),
            r"module\.a\.weight",
        ),  # a wrapper is on every name or on none
        (
            ("norm.gamma", "body.norm.weight"),
            r"norm\.gamma and body\.norm\.weight are both body\.norm\.weight",
        ),
    ],
)
def test_names_of_no_parameter_are_refused(names, words):
    with pytest.raises(WeightsError, match=words):
        renamed(*names)


def test_heads_that_the_type_does_not_have_are_left_out_of_a_file_with_its_body():
    found = renamed("body.a.weight", "qa_outputs.weight", "cls.chain.bias")
    assert (list(found.tensors), found.other_heads) == (
        ["body.a.weight"],
        ["qa_outputs.weight", "cls.chain.bias"],
    )
