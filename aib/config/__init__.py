"""Settings, model options, presets and their validation. Nothing here imports torch.

`paper.py` holds the numbers of the paper, `profiles.py` what its released code does differently.
"""
