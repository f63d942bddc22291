"""Cases of the fuzzer, by kind: each takes a generator of random numbers and a folder of its own."""
