"""Error, calibration and intervals; matching of class names."""
