"""OpenAI Realtime (GA): wire <-> session vocabulary, without any I/O."""
