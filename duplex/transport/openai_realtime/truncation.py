"""What happens to a conversation that is too long, as this protocol says it."""

from __future__ import annotations

from duplex.protocol.openai_realtime import patch as wire
from duplex.session.settings import RetentionRatio, Truncation


def asked(truncation: wire.Truncation) -> Truncation:
    """What the client wants."""
    if not isinstance(truncation, wire.RetentionRatio):
        return truncation
    limits = truncation.token_limits
    return RetentionRatio(
        retention_ratio=truncation.retention_ratio,
        most_tokens=limits.post_instructions if limits is not None else None,
    )


def shown(truncation: Truncation) -> wire.Truncation:
    """What holds."""
    if not isinstance(truncation, RetentionRatio):
        return truncation
    limits = wire.TokenLimits(post_instructions=truncation.most_tokens) if truncation.most_tokens is not None else None
    return wire.RetentionRatio(retention_ratio=truncation.retention_ratio, token_limits=limits)
