"""Anybody's containers become one `Ratings`: columns, ids, and every check of data."""
