from pipeline.__main__ import stage_main

if __name__ == "__main__":
    raise SystemExit(stage_main("balance"))
