"""Map an error of a rank to an exit code and a message."""

import traceback
from typing import Final

from torch.distributed import DistError

from clozeline import repair
from clozeline.errors import PEER_LOST, ConfigurationError
from clozeline.foreign_code import explain_environment

_PEER_GONE: Final = (
    *(
        "Connection closed by peer",
        "Connection reset by peer",
        "Broken pipe",
        "Read error",
        "recv error",
    ),
    *("NCCL error", "remote process exited"),
)
_PEER_SILENT: Final = "Timed out waiting"


def explain(error: BaseException) -> tuple[int, str]:
    """Return exit code and message of an error; the message of a bug is its traceback."""
    code, message = repair.explain(error)
    if message:
        return code, message
    text = str(error)
    if "does not have a deterministic implementation" in text:
        return ConfigurationError.exit_code, f"{text.split(', but ')[0]}: set deterministic=false"
    if isinstance(error, RuntimeError) and _PEER_SILENT in text:
        return PEER_LOST, (
            "another rank gave no answer within collective_timeout_s: it was stopped, killed, or "
            "its machine is overloaded or unreachable; end its processes, then start the same "
            "command again"
        )

    if isinstance(error, DistError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in _PEER_GONE)
    ):
        return PEER_LOST, "another rank ended; its message says why"
    if told := explain_environment(error):
        return ConfigurationError.exit_code, told

    return code, "".join(traceback.format_exception(error))
