"""Models of the Hugging Face Hub: how to download one, and the card of one."""
