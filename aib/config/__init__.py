"""Settings, model options, presets and their validation. Nothing here imports torch."""
