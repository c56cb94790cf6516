"""The state of a run in a checkpoint: counters, position of the stream, identity of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, ValidationError

from clozeline.configuration.config import Natural, adapter_of
from clozeline.errors import CheckpointError
from clozeline.extension_list import HIDE
from clozeline.pipeline.shards.manifest import first_problem
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.optim.early_stopping import Best
from clozeline.train.registries import STATE_KEYS

_STEP_KEYS: Final = ("step", "tokens", "skipped", "skipped_in_a_row", "heldout_loss", "best")
"""Keys of the state that a rollback takes from the checkpoint."""


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """Position and description of a run, without parameters and optimizer states."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)
    OPTIONAL: ClassVar = (
        "heldout_losses",
        "best",
        "base",
        "skipped_rows",
        "rollbacks",
        "tokenizer",
        "meanings",
        "heldout_sets",
    )
    """keys that are written only with a value"""

    step: Natural
    """optimizer steps done, skipped ones included"""
    samples: Natural
    """position of the stream: rows consumed, and rows that rollbacks skipped"""
    tokens: Natural = 0
    """real tokens seen"""
    skipped: Natural = 0
    """steps whose gradient was not finite"""
    skipped_in_a_row: Natural = 0
    """latest consecutive steps whose gradient was not finite"""
    heldout_loss: float | None = None
    """loss on the first held-out set at this step, if it was evaluated"""
    heldout_losses: tuple[float, ...] = ()
    """losses on the first held-out set every `evaluate.every` steps, if the optimizer needs them"""
    best: Best | None = None
    """best value of the `early_stop` metric, if configured"""
    frozen: dict[str, Any] = field(default_factory=dict)
    """configuration keys that a resumed run must share"""
    stream: dict[str, Any] = field(default_factory=dict)
    """`Stream.state_dict`"""
    base: str = ""
    """digest of the weights copied from `model.init_from`, which a checkpoint with an adapter does
    not contain; empty without `init_from`"""
    tokenizer: str = ""
    """fingerprint of the tokenizer of the sets, which gives the rows of the token table their
    meaning; empty if an earlier version wrote the checkpoint"""
    added: dict[str, Any] = field(default_factory=dict)
    """values of keys of extensions, which are written next to the other keys"""
    skipped_rows: tuple[SkippedRows, ...] = ()
    """rows before this position that rollbacks skipped, in order"""
    rollbacks: Natural = 0
    """rollbacks of the run so far, also those before an earlier checkpoint was restored"""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """names of numbers in the rows, such as languages and classes, as the weights learned them"""
    heldout_sets: dict[str, str] = field(default_factory=dict)
    """digests of the held-out sets by name: losses on others are not compared"""
    dataset: str = ""
    """the training sets with their digests, shares and phases, as text"""
    shape: dict[str, Any] = field(default_factory=dict)
    """world size, ZeRO stage and so on; if they change, results are equal up to rounding"""
    versions: dict[str, str] = field(default_factory=dict)
    """versions of the libraries"""

    @staticmethod
    def read(data: Mapping[str, object]) -> TrainState:
        """Return the state in an index.

        Raises:
            CheckpointError: a key is missing, unknown, of another type, contradicts another key, or
                is of a hidden extension.
        """
        added = STATE_KEYS.added_keys()
        for name in data.keys() & added.keys():
            if hidden := added[name].hidden:
                raise CheckpointError(
                    f"checkpoint state: {name} is of the extension {hidden}, which {HIDE} hides: "
                    "do not hide it"
                )
        own = {key: value for key, value in data.items() if key not in added}
        own["added"] = {key: value for key, value in data.items() if key in added}
        try:
            state: TrainState = adapter_of(TrainState).validate_json(json.dumps(own))
        except ValidationError as error:
            raise CheckpointError(f"checkpoint state: {first_problem(error)}") from error
        if (of_stream := state.stream.get("samples", state.samples)) != state.samples:
            raise CheckpointError(
                f"checkpoint state: samples {state.samples} contradict the stream's {of_stream}"
            )
        return state

    def as_dict(self) -> dict[str, object]:
        """Return the state as a dictionary for the index, without empty optional keys."""
        absent = [key for key in self.OPTIONAL if not getattr(self, key)]
        data = {key: value for key, value in asdict(self).items() if key not in absent}
        return data | {key: value for key, value in data.pop("added").items() if value}

    def with_added(self, values: Mapping[str, Any]) -> TrainState:
        """Return the state with values of keys of extensions."""
        return replace(self, added={**self.added, **values}) if values else self

    def advance(self, *, rows: int, tokens: int, skipped: bool) -> TrainState:
        """Return the state after a step; a skipped step also counts and consumes rows."""
        return replace(
            self,
            step=self.step + 1,
            samples=self.samples + rows,
            stream={**self.stream, "samples": self.samples + rows} if self.stream else {},
            tokens=self.tokens + tokens,
            skipped=self.skipped + skipped,
            skipped_in_a_row=self.skipped_in_a_row + 1 if skipped else 0,
            heldout_loss=None,
        )

    def roll_back(self, saved: TrainState, *, skip_rows: bool) -> TrainState:
        """Return the state after a rollback to a `saved` state.

        `skip_rows`: the stream continues here and skips the rows since then; else it reads them
        again.
        """
        samples = saved.samples
        skipped = saved.skipped_rows
        if skip_rows:
            samples = self.samples
            skipped = (*skipped, SkippedRows(saved.step, saved.samples, self.samples))

        moved = replace(
            self,
            **{key: getattr(saved, key) for key in _STEP_KEYS},
            samples=samples,
            skipped_rows=skipped,
        )

        return replace(
            moved, stream={**self.stream, "samples": samples}, rollbacks=self.rollbacks + 1
        )

    @property
    def optimizer(self) -> str | None:
        """Name of the optimizer whose states are in the checkpoint; None if it is not known."""
        return self.frozen.get("optimizer.name")

    @property
    def rows(self) -> int:
        """Rows that the weights were trained on, filler included."""
        return self.samples - sum(stop - start for _, start, stop in self.skipped_rows)


def find_changes(
    saved: TrainState,
    now: TrainState,
    allowed: Sequence[str],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """Return the frozen keys that differ between checkpoint and start, with both values.

    Keys in `allowed` are ignored. A key that is younger than the checkpoint has its value in
    `defaults` there. Digests of custom code count only if both have them: if another
    algorithm is configured, the key with its name differs, too.
    """
    saved_values = {**defaults, **saved.frozen}
    current_values = dict(now.frozen)
    common_keys = saved_values.keys() & current_values.keys()
    keys = [
        key
        for key in sorted({*saved_values, *current_values})
        if saved_values.get(key) != current_values.get(key)
        and (not key.startswith("code.") or key in common_keys)
    ]

    return [
        f"{key}: {saved_values.get(key)!r} in the checkpoint, {current_values.get(key)!r} now"
        for key in keys
        if not is_allowed(key.removesuffix(" (digest)"), allowed)
    ]


def is_allowed(key: str, allowed: Sequence[str]) -> bool:
    """Return whether a dotted key or a key above it is in `allowed`: `data` allows `data.seed`."""
    return f"{key}.".startswith(tuple(f"{entry}." for entry in allowed))
