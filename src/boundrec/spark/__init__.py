"""boundrec on Spark: the same rows, learnt by a cluster; needs the extra ``spark`` and Java.

Say when one machine is enough, which it mostly is: docs/spark.md has the figures.
"""

from boundrec.spark.errors import SparkError
from boundrec.spark.estimators import SparkBayesianMBMF, SparkBayesianMBMFModel, SparkMBMF, SparkMBMFModel

__all__ = ["SparkBayesianMBMF", "SparkBayesianMBMFModel", "SparkError", "SparkMBMF", "SparkMBMFModel"]
