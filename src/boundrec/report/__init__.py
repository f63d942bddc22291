"""Pages and plots: what the reports of a model and of the paper share, and the report of a model."""
