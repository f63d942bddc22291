"""The estimators: MBMF and the methods it is compared with."""
