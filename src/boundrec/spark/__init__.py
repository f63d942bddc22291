"""boundrec on Spark: the same rows, learnt by a cluster; needs the extra ``spark`` and Java.

Say when one machine is enough, which it mostly is: docs/spark.md has the figures.
"""

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f"boundrec.spark needs pyspark and pyarrow, of which {missing.name} is not installed: "
        "pip install 'boundrec[spark]'"
    ) from None

from boundrec.spark.errors import SparkError
from boundrec.spark.estimators import SparkBayesianMBMF, SparkBayesianMBMFModel, SparkMBMF, SparkMBMFModel

__all__ = ["SparkBayesianMBMF", "SparkBayesianMBMFModel", "SparkError", "SparkMBMF", "SparkMBMFModel"]
