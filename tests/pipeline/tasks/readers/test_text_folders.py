"""Text files of a split of folders, in the order of their names."""

from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._text_folders import read_text, text_files


def test_files_of_the_folders_next_to_a_file(tmp_path: Path) -> None:
    names = [
        "train/pos/1.txt",
        "train/neg/2.txt",
        "train/neg/10.txt",
        "test/neg/3.txt",
        "train/4.txt",
        "train/neg/.5.txt",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    found = [path.relative_to(tmp_path).as_posix() for path in text_files(tmp_path / names[0])]
    assert found == ["train/neg/10.txt", "train/neg/2.txt", "train/pos/1.txt"]


def test_long_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufefftext", encoding="utf-8")
    assert read_text(tmp_path / "a.txt", 3, Limits()) == "text"
    found = read_text(tmp_path / "a.txt", 3, Limits(record_bytes=5))
    assert found == Rejected("record_bytes", 3)
