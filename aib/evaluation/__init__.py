"""How good a model is on a data set: error, calibration and KL, with intervals.

`matching.py` maps the classes of other data sets to those of the model.
"""
