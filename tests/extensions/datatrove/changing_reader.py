"""A reader of datatrove, as a user could write one, over files that may change."""

import json
from pathlib import Path

from datatrove.pipeline.readers.base import BaseReader


class ChangingReader(BaseReader):
    """Yields the JSON file of each rank; notes each call in the folder."""

    def __init__(self, folder: str, mark: str = ""):
        super().__init__()
        self.folder = Path(folder)
        self.mark = mark

    def run(self, data=None, rank=0, world_size=1):
        files = sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
        count = len(list(self.folder.glob("read-*")))
        (self.folder / f"read-{count}-{rank}").touch()
        for file in files[rank::world_size]:
            row = json.loads(file.read_text())
            row["text"] += self.mark
            yield self.get_document_from_dict({"id": file.name, **row}, str(file), 0)
