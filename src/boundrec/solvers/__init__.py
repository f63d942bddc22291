"""Arrays in, sweeps out: kernels, threads and the algorithms on them; no ids, no options."""
