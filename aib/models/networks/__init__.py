"""Networks of libraries and of the user: by name, by layer, and how their features are read."""
