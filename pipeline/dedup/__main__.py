from functools import partial

from clozeline.pipeline.__main__ import stage_main

main = partial(stage_main, "dedup")

if __name__ == "__main__":
    raise SystemExit(main())
