"""The orchestrator alone owns a request from admission to completion; it schedules stages."""
