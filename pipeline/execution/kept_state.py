"""Keep the tokenizer and the factors of `balance` when a run grows or forgets documents.

`kept.json` holds the key of the stage that gave the tokenizer, and the factors. Both count only while the keys of their
stages in the recipe are as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.errors import IntegrityError
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.unit_record import iter_records
from clozeline.sealed_json import seal, unseal

_FILE: Final = "kept.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class KeptState:
    """By stage: a digest of its configuration, and what is kept: the key of its records, or the table of factors."""

    stages: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    def of(self, stage: str, config: str) -> Any:
        """Return the recorded state of a stage with this configuration digest; None without one."""
        known, kept = self.stages.get(stage, ("", None))
        return kept if known == config else None

    def with_stage(self, stage: str, config: str, kept: Any) -> "KeptState":
        """Return the state with what a stage keeps, unless it keeps something already."""
        return self if self.of(stage, config) is not None else KeptState({**self.stages, stage: (config, kept)})

    @staticmethod
    def load(output: Path) -> "KeptState":
        """Read what a run keeps; nothing where it has neither grown nor forgotten documents."""
        path = output / _FILE
        if not path.exists():
            return KeptState()
        try:
            stages = unseal(parse_json(path.read_text(encoding="utf-8")), path, _FORMAT)["stages"]
            return KeptState({name: (each["config"], each["kept"]) for name, each in stages.items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"{path}: not what a run keeps ({error}); copy it from a backup, or run with rebalance=true, which "
                "trains the tokenizer and computes the factors again"
            ) from error

    def save(self, output: Path) -> None:
        """Publish what a run keeps."""
        stages = {name: {"config": config, "kept": kept} for name, (config, kept) in self.stages.items()}
        publish_json(output / _FILE, seal({"format": _FORMAT, "stages": stages}))

    @staticmethod
    def remove(output: Path) -> None:
        """Keep nothing any more."""
        (output / _FILE).unlink(missing_ok=True)


def record_key(folder: Path) -> str | None:
    """Return the key of the finished units of a stage; None where it has none."""
    finished = iter_records(folder, "main")
    return next((record.key for record in finished), None)
