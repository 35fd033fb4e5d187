"""Models of other papers: the attention methods that the paper compares with, and the evaluator.

The evaluator judges maps that it has never seen.
"""
