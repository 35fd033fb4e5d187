"""HTML pages about runs and sweeps: charts, tables, maps, how to reproduce."""
