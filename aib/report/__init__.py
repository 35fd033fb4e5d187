"""What is written about a run for readers: the HTML page, and the model card on the Hub.

`gather.py` reads what train, eval and interpret wrote; nothing is measured here.
"""
