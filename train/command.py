"""The trainer's command line: parse arguments, train, and map errors to exit codes.

Everything that imports torch, which takes seconds, is imported where it is used: a mistake in the
arguments is told at once.
"""

import os
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from typing import Annotated, Final

from clozeline.command import DetailOptions, keys_of, program_name
from clozeline.command_line import (
    Dashed,
    Hidden,
    OtherKeys,
    asks_for_help,
    key_lines,
    print_help,
    read_words,
    wants_all_keys,
)
from clozeline.configuration.config import config_class, config_file, load_config, read_mapping
from clozeline.configuration.described_keys import describe
from clozeline.errors import (
    PEER_LOST,
    STOPPED,
    ClozelineError,
    ConfigurationError,
    NoPeersError,
    message_text,
)
from clozeline.model.registries import ADAPTERS, HEADS
from clozeline.process import guard_streams, shield_children
from clozeline.repair import explain
from clozeline.train.distributed.launcher import describe_environment
from clozeline.train.distributed.stopping import INTERRUPTED, INTERRUPTED_MESSAGE, Interrupted
from clozeline.train.registries import HOOKS, OPTIMIZERS, REGULARIZERS, SCHEDULES, TRAINING_KEYS

_ALGORITHMS: Final = (
    ("optimizer", "name", OPTIMIZERS),
    ("schedule", "name", SCHEDULES),
    ("model.adapter", "name", ADAPTERS),
    ("model.heads.NAME", "NAME", HEADS),
    ("regularizer", "name", REGULARIZERS),
    ("hooks", "name", HOOKS),
)
_PATIENCE_S: Final = {False: 20.0, True: 1.0}
"""Seconds that a silent rank waits after an error, by whether ranks are joined: launchers end all
ranks when one ends, and the rank that prints the message needs time."""


@config_class
class TrainOptions(DetailOptions):
    """A configuration, and what is done with it."""

    config: Annotated[str | None, Dashed("FILE")] = None
    """YAML file with the keys below, or recipe:NAME for one that comes with Clozeline"""
    dry_run: bool = False
    """check everything, print what the run costs, stop"""
    local_rank: Annotated[int | None, Hidden()] = None
    """passed by DeepSpeed's launcher; the environment has it, too"""
    words: Annotated[tuple[str, ...], OtherKeys("keys to override")] = ()


def main(arguments: Sequence[str]) -> int:
    """Run the command and return an exit code of clozeline/errors.py.

    Errors print one `error: ...` message on stderr, from one rank; `CLOZELINE_TRACEBACK=1` adds the
    traceback.
    """
    guard_streams()
    shield_children()
    rank = local = "0"

    try:
        if asks_for_help(arguments):
            if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0":
                _print_help(arguments)
            return 0

        describe_environment()  # what a launcher set in part is told at once, by each process
        rank = os.environ["RANK"]
        local = os.environ["LOCAL_RANK"]
        options = read_words(TrainOptions, arguments)
        if options.config is None:
            raise ConfigurationError(
                "--config is missing, as in: clozeline train --config mine/train.yaml; see --help"
            )
        path = config_file(options.config, "train.yaml")
        read_mapping(path)  # a missing file and invalid YAML are told at once
        from clozeline.train.configuration.config import TrainConfig

        config = load_config(TrainConfig, path, options.words, is_users=True)
        if options.dry_run:
            from clozeline.train.startup.announcements import dry_run

            return dry_run(config)
        from clozeline.train.run import run_training

        return run_training(config, detail=options.detail)
    except (KeyboardInterrupt, Interrupted) as signal:  # before the first step
        if local == "0":
            sys.stderr.write(f"{INTERRUPTED_MESSAGE}\n")
        return _end(INTERRUPTED if isinstance(signal, KeyboardInterrupt) else STOPPED)
    except BaseException as error:  # code of others may exit, and libraries panic
        code, message = _explain(error, rank, local)
        if message and os.environ.get("CLOZELINE_TRACEBACK") and code != 1:  # its message has one
            sys.stderr.write(message_text(traceback.format_exc()))
        if message:
            sys.stderr.write(message_text(f"error: {message}\n"))
        return _end(code, 0.0 if message else _PATIENCE_S[_has_joined()])


def _print_help(words: Sequence[str]) -> None:
    """Print the help with the keys that are set most often, or with all."""
    from clozeline.model.configuration.sizes import all_sizes
    from clozeline.train.configuration.config import TrainConfig

    description = "Train a model on example shards."
    print_help(TrainOptions, words, description, program_name("train/main.py"))

    if not wants_all_keys(words):
        lines = key_lines(describe(TrainConfig, common=True), "keys that are set most often")
        sys.stdout.write("\n" + "\n".join(lines) + "\n\n`--help all` shows all keys.\n")
        return

    kinds = TRAINING_KEYS.classes().values()
    added = ((key, "name", choice) for kind in kinds for key, choice in kind.choices.items())
    lines = key_lines(keys_of(TrainConfig, (*_ALGORITHMS, *added)), "keys of the configuration")
    sizes = textwrap.fill(", ".join(all_sizes()), 118, initial_indent="  ", subsequent_indent="  ")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    sys.stdout.write(f"\nsizes of models, for model=size:NAME:\n{sizes}\n")


def _end(code: int, patience_s: float = 0.0) -> int:
    """Return the exit code of a single process; a rank ends here."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(patience_s)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        os._exit(code)  # do not wait for other ranks, which may have ended
    return code


def _explain(error: BaseException, rank: str, local: str) -> tuple[int, str]:
    """Return (exit code, message); the message is empty if another rank prints it."""
    if isinstance(error, ClozelineError):
        # joined ranks all raise the same error; before they join, errors may differ by machine
        prints = isinstance(error, NoPeersError) or (rank if _has_joined() else local) == "0"
        return error.exit_code, str(error) if prints else ""

    code, text = explain(error)
    if not text:  # without memory, torch cannot be imported
        from clozeline.train.distributed import failures

        code, text = failures.explain(error)
    if code == PEER_LOST and local != "0":  # every other rank notices, too
        return code, ""
    fault = (
        "a mistake in Clozeline, not in your configuration: please report the lines below\n"
        if code == 1
        else ""
    )

    return code, f"rank {rank}: {fault}{text}"


def _has_joined() -> bool:
    """Return whether this rank has joined the other ranks; without torch, no rank has."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_initialized()
