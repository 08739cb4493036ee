"""One folder per model family: its stage graph and its adapters."""
