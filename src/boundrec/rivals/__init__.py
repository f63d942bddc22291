"""The six methods that the paper compares MBMF with."""
