from pipeline.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())  # with the tokenizer that the rows are made with, which is a stage of its own
