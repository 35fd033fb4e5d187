"""Models of other papers: the attention methods that the paper compares with, and the evaluator."""

from aib.baselines.abn import build_abn
from aib.baselines.evaluator import build_evaluator
from aib.baselines.gap import build_gap
from aib.baselines.pan import ProgressiveAttention
from aib.baselines.pay_attention import PayAttention
from aib.baselines.plain import build_plain

__all__ = [
    "PayAttention",
    "ProgressiveAttention",
    "build_abn",
    "build_evaluator",
    "build_gap",
    "build_plain",
]
