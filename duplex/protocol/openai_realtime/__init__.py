"""The wire messages of the OpenAI Realtime API (GA), as msgspec structs.

Source of every name and type: `openai/types/realtime` of the `openai` Python package, 3.57.0.
"""
