from clozeline.pipeline.__main__ import (
    main,
)  # with the tokenizer that the rows are made with, which is a stage of its own

if __name__ == "__main__":
    raise SystemExit(main())
