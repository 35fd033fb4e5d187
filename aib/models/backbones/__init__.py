"""The backbones of the models, each cut in two where the attention sits."""
