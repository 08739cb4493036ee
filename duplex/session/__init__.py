"""The session kernel: pure state machines, and one runner that performs their effects."""
