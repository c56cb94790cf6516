"""Recompute the counts of a pipeline run from its data: `clozeline verify-counts OUTPUT`.

OUTPUT is the folder of a complete run. Record counts, stage and run reports, file sizes and hashes, documents,
characters, languages, reasons, rows and tokens of every shard set are each computed in two ways. Exit code 0 with the
number of comparisons; 65 with the first difference; 64 for wrong usage; 74 for a missing file.
"""

import argparse
from collections.abc import Sequence

from clozeline.tools.command import Arguments, run_tool, some_path
from clozeline.tools.shards.validation.run_counts import check_run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("output", type=some_path, help="output folder of a pipeline run")

    def action(options: argparse.Namespace) -> None:
        compared = check_run(options.output)
        print(f"OK: {', '.join(f'{name} {count}' for name, count in compared.items())} comparisons; all counts agree")

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
