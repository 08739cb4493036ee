"""duplex: a server whose unit is the real-time, full-duplex session."""

__version__ = "0.1.0"
