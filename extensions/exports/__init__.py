"""Write shard sets in the formats of MosaicML, Megatron-LM, LitData, WebDataset and datasets."""
