"""Turn labeled data into task sets, and train, score and use models on them."""

PARTS = {"pipeline": {"tasks"}}
