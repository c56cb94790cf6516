"""Options that several commands share."""

from typing import Annotated

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.tools.command import ModelPath, UserPath
from clozeline.train.configuration.checkpoint import StepChoice


@config_class
class RunArgument:
    """The model that a command reads."""

    run: Annotated[ModelPath, Positional(0)]
    """a run, or a folder with a model"""


@config_class
class CheckpointChoice:
    """The checkpoint of a run to open."""

    step: StepChoice = None
    """step of the checkpoint; best: the one with the lowest held-out loss; default: the newest"""


@config_class
class JsonSwitch:
    """How a result is printed."""

    json: bool = False
    """print the JSON alone"""


@config_class
class SetArgument:
    """The shard set that a command reads."""

    manifest: Annotated[UserPath, Positional(0)]
    """manifest.json of a shard set, or its folder"""


@config_class
class TokenizerOption:
    """The tokenizer that decodes the rows of a set."""

    tokenizer: UserPath | None = None
    """folder of the tokenizer, or a set or output folder that has it above or in it; default: found
    above the set"""
