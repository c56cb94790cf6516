"""Write shard sets in the formats of LitData, WebDataset, Parquet and datasets."""
