"""What tests of the paper's experiments share: a small data set, and forgetting which data were read."""

from boundrec import datasets
from boundrec.paper import protocol

SMALL = datasets.synthetic(60, 40, 0.5, rank=3, random_state=0)


def forget_all_data():
    for known in (protocol.whole, protocol.load, protocol.missing, protocol.extent, protocol.fold_of):
        known.cache_clear()
