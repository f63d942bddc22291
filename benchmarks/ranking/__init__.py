"""Lists against peers: the same splits for everybody, lists over all unseen items, each fit in a process of its own.

``python -m benchmarks.ranking`` writes ``results/ranking/``: all figures in one file, and a page with a table for each
data set and what is asked of our models. Finished fits are kept one by one, so that a run that was stopped goes on;
delete the line of a cell to have it done again. It needs the data sets in BOUNDREC_DATA and implicit
(``pip install "boundrec[peers]"``).

``tasks`` has the data sets and their splits, ``methods`` who is compared, ``unbounded`` the least squares without the
ball, ``child`` one fit and what is measured on it, ``report`` the tables.
"""
