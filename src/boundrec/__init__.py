"""Recommendations that stay in bounds."""

__version__ = "0.1.0"
