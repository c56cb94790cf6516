"""Two small published models that do not repeat one token for ever."""

import pytest

from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import peer


@pytest.fixture(scope="session", params=["gpt2", "t5"])
def peers(request, tmp_path_factory):
    """Our model, that of transformers, and what our decoder needs to start: larger matrices and smaller biases."""
    folder, theirs = tmp_path_factory.mktemp("peer"), peer(request.param, 2)
    for name, parameter in theirs.named_parameters():
        parameter.data = 2 * parameter.data if parameter.ndim > 1 else parameter.data - float(name.endswith("bias"))
    theirs.save_pretrained(folder)
    start = {"decoder_start": 0} if theirs.config.is_encoder_decoder else {}
    return build_checkpoint(read_checkpoint(folder)).eval(), theirs, start
