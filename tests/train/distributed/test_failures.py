import pytest
import torch
from torch.distributed import DistBackendError

from clozeline.errors import CheckpointError, ConfigurationError, NewerFormatError
from clozeline.train.distributed.failures import explain


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigurationError("wrong"), 64, "wrong"),
        (CheckpointError("torn"), 65, "torn"),
        (NewerFormatError("newer"), 64, "newer"),
        (
            RuntimeError("[pair.cc:534] Connection closed by peer [127.0.0.1]:2"),
            71,
            "another rank ended",
        ),
        (
            RuntimeError("[unbound_buffer.cc:84] Timed out waiting 600000ms for recv"),
            71,
            "another rank gave no answer",
        ),
        (DistBackendError("NCCL communicator was aborted"), 71, "another rank ended"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), 77, "smaller data.micro_batch"),
        (
            RuntimeError("kthvalue CUDA does not have a deterministic implementation, but you set"),
            64,
            "kthvalue CUDA does not have a deterministic implementation: set deterministic=false",
        ),
        (OSError(28, "No space left on device"), 74, "No space left on device"),
        (RuntimeError("a product of ours"), 1, "Traceback"),
    ],
)
def test_codes_and_messages(error, code, message):
    try:
        raise error
    except Exception as raised:
        found, text = explain(raised)

    assert found == code
    assert message in text
    assert ("Traceback" in text) is (code == 1)
