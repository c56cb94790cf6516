"""The checkpoint that a start takes: the one that `latest` names, then the newest; never step 0 beside others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import CheckpointError, NewerFormatError, PeerError
from clozeline.train.checkpoint.find_checkpoint import LATEST, candidates, choose, find_newest
from clozeline.train.checkpoint.format import Index

NAMES = ["step-00000012", "step-00000008", "step-00000004"]
INDEX = Index({}, {}, {}, [], {})


def folders(directory: Path, latest: bytes | None = None) -> Path:
    for name in [*NAMES, "step-backup", "step-00000099.tmp"]:
        (directory / name).mkdir()
    if latest is not None:
        (directory / LATEST).write_bytes(latest)
    return directory


@pytest.mark.parametrize(
    ("latest", "order", "ignored"),
    [
        (b"step-00000012\n", [0, 1, 2], ""),
        (b"step-00000004\n", [2, 0, 1], ""),
        (b"step-00000016\n", [0, 1, 2], "it names 'step-00000016', which is not there"),
        (b"", [0, 1, 2], "it names '', which is not there"),
        (b"\xff\xfe", [0, 1, 2], "it cannot be read"),
        (None, [0, 1, 2], "it cannot be read"),
    ],
)
def test_latest_comes_first_then_the_newest(
    tmp_path: Path, latest: bytes | None, order: list[int], ignored: str
) -> None:
    names, why = candidates(folders(tmp_path, latest))
    assert names == [NAMES[number] for number in order]
    assert ignored in why
    assert bool(ignored) == bool(why)


def test_an_empty_directory_has_none_and_nothing_to_say(tmp_path: Path) -> None:
    assert candidates(tmp_path) == candidates(tmp_path / "nowhere") == ([], "")
    assert find_newest(tmp_path, lambda name, why: pytest.fail(why)) is None


@given(st.lists(st.sampled_from(["whole", "damaged", "lost peer"]), max_size=4))
def test_the_first_whole_one_is_taken_and_those_before_are_named(states: list[str]) -> None:
    refused: list[tuple[str, str]] = []
    names = [f"step-{number:08d}" for number in range(len(states))]

    def check(path: Path) -> Index:
        state = states[names.index(path.name)]
        if state == "whole":
            return INDEX
        raise CheckpointError(f"{path.name} is torn") if state == "damaged" else PeerError(f"{path.name} on rank 1", 65)

    def look() -> tuple[Path, Index] | None:
        return choose(Path("c"), names, check, lambda name, why: refused.append((name, why)))

    if "whole" in states:
        first = states.index("whole")
        assert look() == (Path("c") / names[first], INDEX)
        assert [name for name, _ in refused] == names[:first]
        assert all(name in why for name, why in refused)
    elif states:
        with pytest.raises(CheckpointError, match=f"holds {len(states)} checkpoints, none of them is valid") as error:
            look()
        assert not refused, "the error says it all"
        assert str(error.value).splitlines()[1:] == [
            f"  {name} is torn" if state == "damaged" else f"  {name} on rank 1"
            for name, state in zip(names, states, strict=True)
        ]
    else:
        assert look() is None


@pytest.mark.parametrize("error", [NewerFormatError("newer"), PeerError("newer", NewerFormatError.exit_code)])
def test_a_checkpoint_of_a_newer_version_ends_the_search(error: Exception) -> None:
    def check(path: Path) -> Index:
        raise error

    with pytest.raises(type(error), match="newer"):
        choose(Path("c"), NAMES, check, lambda name, why: pytest.fail(why))


def test_a_torn_index_is_passed_over_and_nothing_is_started_over(tmp_path: Path) -> None:
    folders(tmp_path, b"step-00000008\n")
    with pytest.raises(CheckpointError, match="start from step 0 in another output") as error:
        find_newest(tmp_path, lambda name, why: pytest.fail(why))
    named = [line.split("/")[-2] for line in str(error.value).splitlines()[1:]]
    assert named == [NAMES[1], NAMES[0], NAMES[2]]
