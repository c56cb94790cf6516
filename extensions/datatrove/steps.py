"""Connect pipelines of datatrove with Clozeline: steps that read and write our documents.

    from clozeline.extensions.datatrove.steps import ClozelineReader, ClozelineShards

    LocalPipelineExecutor(
        [JsonlReader("crawl/"), GopherQualityFilter(), ClozelineShards("handed-over")], tasks=8
    ).run()

The recipe `input: {path: handed-over, exported: true}` goes on from there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from datatrove.data import Document as DatatroveDocument
from datatrove.pipeline.base import PipelineStep
from datatrove.utils.typeshelper import StatHints

from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError
from clozeline.extensions.datatrove.blocks import to_datatrove
from clozeline.files import publish
from clozeline.pipeline.execution.stages import last_documents
from clozeline.pipeline.ingest.documents.document import RECORD_ID, document_uid
from clozeline.pipeline.ingest.documents.files import document_files, read_documents
from clozeline.pipeline.ingest.documents.json_lines import JSON_LINES_SUFFIX, open_json_lines
from clozeline.pipeline.ingest.documents.schema import DOCUMENT_SCHEMA
from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.formats.portable_json import to_portable_json
from clozeline.pipeline.text.language_codes import parse_code


class ClozelineShards(PipelineStep):  # type: ignore[misc]
    """The last step of a datatrove pipeline: writes its documents for `clozeline pipeline`.

    Each task writes a file of exported documents, atomically. A document that came from
    `ClozelineReader` keeps its uid; another one gets its uid from the corpus, the source, the task
    and its number in the task. `url`, `date` and `language` of the metadata become columns, all
    other metadata and the id go to `extra`. Every document is also passed on.

    Args:
        folder: local or shared folder, of one number of tasks.
        corpus: name of the corpus, part of every new uid; the recipe has the same.
        source: label of the documents for mixtures and reports.

    Raises:
        ConfigurationError: the folder is a URL, or holds files of another number of tasks.
    """

    type: ClassVar[str] = "💽 - WRITER"
    name: ClassVar[str] = "Clozeline"

    def __init__(
        self, folder: str | Path, corpus: str = "default", source: str = "datatrove"
    ) -> None:
        super().__init__()
        if as_url(str(folder)) is not None:
            raise ConfigurationError(f"{folder}: expected a local or shared folder, got a URL")
        self.folder = Path(folder).absolute()
        self.corpus = corpus
        self.source = source

    def run(self, data: Iterator[Any] | None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Write the documents of a task, and yield them."""
        part = f"{rank:05d}-of-{world_size:05d}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for other in self.folder.glob(f"*{JSON_LINES_SUFFIX}"):
            if not other.name.endswith(f"-of-{world_size:05d}{JSON_LINES_SUFFIX}"):
                raise ConfigurationError(
                    f"{other}: this folder holds documents of another number of tasks than "
                    f"{world_size}, which would be read twice: choose another folder, or remove it"
                )

        target = self.folder / f"{part}{JSON_LINES_SUFFIX}"
        with publish(target) as temporary, open_json_lines(temporary) as write:
            for number, document in enumerate(data or ()):
                with self.track_time():
                    write(self._make_row(document, f"{self.source}/{part}", number))
                    self.stat_update(StatHints.total)
                    if document.media:
                        self.stat_update("media_not_written", value=len(document.media))
                yield document

    def _make_row(self, document: DatatroveDocument, source: str, number: int) -> dict[str, Any]:
        metadata: Mapping[str, Any] = to_portable_json(document.metadata)
        if "uid" in metadata:
            columns = {name: metadata[name] for name in DOCUMENT_SCHEMA.names if name in metadata}
            is_new = document.id != metadata["uid"]
        else:
            columns = {
                **_read_columns(metadata),
                "uid": document_uid(self.corpus, source, "datatrove", number).hex(),
                "source": source,
                "source_group": self.source,
                "offset": number,
                "length": 1,
            }
            is_new = True

        extra = {name: value for name, value in metadata.items() if name not in columns}
        if is_new:
            extra[RECORD_ID] = str(document.id)
        return {**columns, "text": document.text, "extra": extra}


def _read_columns(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that are columns of a document, if their values can be used."""
    columns = {}
    if isinstance(metadata.get("url"), str):
        columns["url"] = metadata["url"]
    if parse_date(metadata.get("date")) is not None:
        columns["date"] = metadata["date"]
    if (language := parse_code(metadata.get("language"))) is not None:
        score = metadata.get("language_score")
        is_score = isinstance(score, (int, float)) and 0 <= score <= 1
        columns |= {"language": language, "language_score": score if is_score else 1.0}
    return columns


class ClozelineReader(PipelineStep):  # type: ignore[misc]
    """The first step of a datatrove pipeline: yields the documents of one of our runs.

    The tasks share the files of the documents; a task without a file yields nothing. Columns and
    `extra` of a document are its metadata.

    Args:
        output: output of a run, whose last documents are read, or the folder of a stage.

    Raises:
        ConfigurationError: the folder holds no documents.
    """

    type: ClassVar[str] = "📖 - READER"
    name: ClassVar[str] = "Clozeline"

    def __init__(self, output: str | Path) -> None:
        super().__init__()
        self.output = Path(output).absolute()

    def run(
        self, data: Iterator[Any] | None = None, rank: int = 0, world_size: int = 1
    ) -> Iterator[Any]:
        """Yield the documents of earlier readers, then those of this task."""
        yield from data or ()
        stage = self.output / "documents"
        folder = stage if stage.is_dir() else last_documents(self.output)
        for file in document_files(folder)[rank::world_size]:
            for document in read_documents(file):
                converted = to_datatrove(document)
                self.stat_update(StatHints.total)
                self.update_doc_stats(converted)
                yield converted
