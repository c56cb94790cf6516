from functools import partial

from clozeline.pipeline.__main__ import stage_main

main = partial(stage_main, "train_tokenizer")

if __name__ == "__main__":
    raise SystemExit(main())
