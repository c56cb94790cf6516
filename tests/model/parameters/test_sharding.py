import torch
from torch import nn

from clozeline.model.parameters.sharding import full_shape


def test_a_parameter_in_parts_has_the_shape_of_the_whole():
    parameter = nn.Parameter(torch.zeros(3, 4))

    assert full_shape(parameter) == (3, 4)

    parameter.ds_shape = torch.Size([7, 4])
    parameter.data = torch.empty(0)

    assert full_shape(parameter) == (7, 4)
    assert full_shape(parameter).numel() == 28
