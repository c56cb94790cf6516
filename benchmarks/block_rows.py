"""The stream on one set stored with blocks of 64 to 1,920 rows: from a disk, and from a slow store.

    python -m benchmarks.block_rows [--samples 61440] [--ids 128] [--latency 0.05] [--repeats 10]

Rows of `--ids` 16-bit ids are read in batches of 32 with the trainer's defaults, from a hot page
cache, and by HTTP from a server that waits `--latency` seconds before each answer. An epoch is the
fastest of `--repeats` from the disk, and one from the store.
"""

import multiprocessing
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    best_seconds,
    parser,
    print_rows,
    system_load,
    temporary_folder,
    write_json,
)

import numpy as np

from benchmarks.peers.clozeline import write_set
from benchmarks.peers.workload import BATCH, token_rows

SMALLEST = "--samples 4096 --ids 16 --latency 0 --repeats 1"
ROWS = (64, 120, 240, 480, 960, 1920)


class SlowFiles(BaseHTTPRequestHandler):
    """Serves byte ranges of the files below a folder, each after a pause."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, folder: Path, latency: float, *arguments: object) -> None:
        self.folder = folder
        self.latency = latency
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, *, with_body: bool) -> None:
        time.sleep(self.latency)
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        first, _, last = asked.partition("-")
        with path.open("rb") as file:
            file.seek(int(first or 0))
            body = file.read(int(last) + 1 - int(first) if last else size)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        if asked:
            end = int(first) + len(body) - 1
            self.send_header("Content-Range", f"bytes {first}-{end}/{size}")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def serve(folder: Path, latency: float, ports: Any) -> None:
    """Serve a folder in this process, and send the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SlowFiles, folder, latency))
    ports.put(server.server_port)
    server.serve_forever()


def read_epochs(place: Path | str, epochs: int = 0) -> tuple[dict[str, float], dict[str, float]]:
    """Read a set; return the least CPU and wall seconds of an epoch, and the stream's counters.

    Without a number of epochs: the wall seconds of a first epoch and of its first step.
    """
    from clozeline.pipeline.shards import open_shards
    from clozeline.train.data.stream.stream import Stream

    start = time.perf_counter()
    stream = Stream(
        open_shards(place), rank=0, world_size=1, seed=1, global_batch=BATCH, micro_batch=BATCH
    )

    def read() -> None:
        end = (stream.samples // stream.samples_per_epoch + 1) * stream.samples_per_epoch
        while stream.samples < end:
            stream.next_step()

    try:
        if not epochs:
            stream.next_step()
            first = time.perf_counter() - start
            read()
            wall = time.perf_counter() - start
            return {"first": first, "wall": wall}, dict(stream.stats())
        wall = best_seconds(read, epochs, time.perf_counter)
        cpu = best_seconds(read, epochs)
        return {"wall": wall, "cpu": cpu}, dict(stream.stats())
    finally:
        stream.close()


def main() -> None:
    options = parser(__doc__, samples=61440, ids=128, latency=0.05, repeats=10).parse_args()
    from clozeline.pipeline.shards import open_shards
    from clozeline.tools.shards.repack_shards import repack

    figures = []
    with temporary_folder() as root:
        lengths = np.full(options.samples, options.ids)
        write_set(root, root / "none", token_rows(lengths), lengths, "none")
        ports: Any = multiprocessing.Queue()
        server = multiprocessing.Process(
            target=serve, args=(root, options.latency, ports), daemon=True
        )
        server.start()
        port = ports.get()

        for rows in ROWS:
            manifest = repack(open_shards(root / "none"), root / str(rows), block_rows=rows)
            disk, _ = read_epochs(root / str(rows), options.repeats)
            url = f"http://127.0.0.1:{port}/{rows}"
            store, counters = read_epochs(url)
            figures.append(
                {
                    "rows": rows,
                    "blocks": manifest.totals.blocks,
                    "bytes": manifest.totals.bytes,
                    "rate": options.samples / disk["wall"],
                    "cpu_us": 1e6 * disk["cpu"] / options.samples,
                    "store_seconds": store["wall"],
                    "first_seconds": store["first"],
                    "store_rate": options.samples * options.ids / store["wall"],
                    "requests": counters["requests"],
                }
            )
        server.terminate()

    best = max(each["rate"] for each in figures)
    print_rows(
        [
            each
            | {
                "MB": each["bytes"] / 1e6,
                "of_best": each["rate"] / best,
                "M": each["store_rate"] / 1e6,
            }
            for each in figures
        ],
        {
            "rows a block": "{rows}",
            "MB": "{MB:.1f}",
            "samples/s": "{rate:,.0f}",
            "of the best": "{of_best:.2f}",
            "CPU us/sample": "{cpu_us:.2f}",
            "requests": "{requests:,.0f}",
            "first s": "{first_seconds:.2f}",
            "store s": "{store_seconds:.2f}",
            "tokens/s": "{M:.1f} M",
        },
        f"rows of {options.ids} ids, {options.samples:,} samples; {system_load()}",
    )
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
