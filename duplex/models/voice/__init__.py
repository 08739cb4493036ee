"""The default voice: what each of its stages does, on the models of this package."""
