"""Pictures and charts: maps over images, panels, grids, SVG for pages. Knows no model.

`picture.py` draws with Pillow, `embed.py` with matplotlib.
"""
