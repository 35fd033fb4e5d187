"""The attention methods that the paper compares with."""

from aib.baselines.abn import AttentionBranch
from aib.baselines.gap import gap_tail
from aib.baselines.pan import ProgressiveAttention
from aib.baselines.pay_attention import PayAttention

__all__ = ["AttentionBranch", "PayAttention", "ProgressiveAttention", "gap_tail"]
