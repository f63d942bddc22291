"""Settings that hold for the whole suite."""

from hypothesis import settings

# The first call of a kernel compiles it, which no deadline should count.
settings.register_profile("boundrec", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("boundrec")
