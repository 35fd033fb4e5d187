"""The computations behind the measures: from maps, masks and predictions to numbers.

They know no study and no tables; `measures/` calls them.
"""
