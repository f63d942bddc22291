"""Accuracy against peers: the same splits and seeds for everybody, each fit in a process of its own.

``python -m benchmarks.accuracy`` writes ``results/accuracy/``: a page with a table for each data set, the figures of
every fit as CSV, and a plot of error against seconds. Finished fits are kept one by one, so that a run that was stopped
goes on; delete the line of a cell to have it done again. It needs the data sets in BOUNDREC_DATA and the peers
(``pip install "boundrec[peers]"``), here or in another environment (``--peer-python``).

``tasks`` has the data sets and their splits, ``methods`` who is compared, ``child`` one fit and what is measured on it,
``report`` the tables.
"""
