"""PCM and resampling; sees nothing else of this package."""
