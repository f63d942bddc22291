"""How good predictions and lists are: arrays in, numbers out.

``predictions`` measures predictions of ratings, ``lists`` top lists against held-out items, ``catalogue`` what lists
show of a catalogue, and ``bootstrap`` says how far a mean over users can be believed.
"""

from boundrec.metrics.bootstrap import Interval, bootstrap_difference, bootstrap_interval, bootstrap_means
from boundrec.metrics.catalogue import (
    catalogue_coverage,
    diversity_of_lists,
    intra_list_diversity,
    novelty,
    novelty_of_lists,
    popularity_bias,
)
from boundrec.metrics.lists import (
    ListMeasures,
    hit_rate,
    lists_by_score,
    map_at_k,
    measure_lists,
    mrr,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
)
from boundrec.metrics.predictions import (
    coverage_and_width,
    f1,
    mae,
    out_of_range_share,
    rmse,
    tie_share,
    user_means,
    variation,
)

__all__ = [
    "Interval",
    "ListMeasures",
    "bootstrap_difference",
    "bootstrap_interval",
    "bootstrap_means",
    "catalogue_coverage",
    "coverage_and_width",
    "diversity_of_lists",
    "f1",
    "hit_rate",
    "intra_list_diversity",
    "lists_by_score",
    "mae",
    "map_at_k",
    "measure_lists",
    "mrr",
    "ndcg_at_k",
    "novelty",
    "novelty_of_lists",
    "out_of_range_share",
    "popularity_bias",
    "precision_at_k",
    "recall_at_k",
    "rmse",
    "tie_share",
    "user_means",
    "variation",
]
