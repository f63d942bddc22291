"""The figures that the paper prints, as data (S. Jiang, K. Li, R. Y. D. Xu, "Magnitude Bounded Matrix Factorisation").

Its Figure 2 prints no numbers and its own matrix of Figure 1 is not given.
"""

#: TABLE "Recommendation Performance on Real Datasets": data set -> metric -> method -> figures for K = 10, 20, 50.
#: The printed averages are not repeated here: they follow from these. One of them does not (resolution A39): for NMF
#: on Ali Mob the paper prints an average RMSE of 131098, while the three figures average 83763.
FACTORS = (10, 20, 50)
TABLE3: dict[str, dict[str, dict[str, tuple[float, float, float]]]] = {
    "Jester": {
        "RMSE": {
            "MF": (5.6107, 4.9242, 4.6770),
            "NMF": (333.18, 98.349, 10.161),
            "CCD++": (5.6643, 5.5892, 5.1609),
            "BMF": (5.4271, 5.5027, 5.3717),
            "BMC-ADMM": (4.9162, 4.9477, 4.7541),
            "Bounded-SVD": (6.3798, 6.7069, 5.7458),
            "MBMF-n": (4.6474, 4.6399, 4.6344),
            "MBMF-c": (4.6816, 4.6695, 4.6773),
        },
        "MAE": {
            "MF": (4.2949, 3.8589, 3.7919),
            "NMF": (9.3592, 9.3339, 5.6652),
            "CCD++": (4.2840, 4.2523, 3.9493),
            "BMF": (4.2851, 4.3581, 4.2744),
            "BMC-ADMM": (3.8149, 3.8807, 3.7961),
            "Bounded-SVD": (4.7758, 5.1434, 4.5270),
            "MBMF-n": (3.7467, 3.7473, 3.7404),
            "MBMF-c": (3.8045, 3.8014, 3.8039),
        },
        "F1": {
            "MF": (60.54, 62.26, 64.35),
            "NMF": (57.96, 56.02, 58.07),
            "CCD++": (60.40, 60.08, 60.46),
            "BMF": (58.62, 58.96, 58.79),
            "BMC-ADMM": (60.52, 57.42, 55.22),
            "Bounded-SVD": (59.90, 58.32, 58.82),
            "MBMF-n": (65.58, 65.71, 65.60),
            "MBMF-c": (64.08, 64.47, 64.16),
        },
    },
    "BookCrossing": {
        "RMSE": {
            "MF": (1.7566, 1.3539, 1.6726),
            "NMF": (1.8827, 1.6211, 1.4146),
            "CCD++": (1.3137, 1.3191, 1.3131),
            "BMF": (1.3409, 1.2863, 1.2990),
            "BMC-ADMM": (3.3757, 3.0368, 2.8886),
            "Bounded-SVD": (1.6221, 1.3541, 1.6021),
            "MBMF-n": (1.2598, 1.2639, 1.2628),
            "MBMF-c": (1.1783, 1.1846, 1.1813),
        },
        "MAE": {
            "MF": (1.3164, 0.9979, 1.2578),
            "NMF": (1.2889, 1.1479, 0.9779),
            "CCD++": (0.8713, 0.8753, 0.8699),
            "BMF": (0.9329, 0.8563, 0.8653),
            "BMC-ADMM": (3.0033, 2.6781, 2.5543),
            "Bounded-SVD": (1.1873, 0.9712, 1.2017),
            "MBMF-n": (0.8503, 0.8534, 0.8526),
            "MBMF-c": (0.7810, 0.7849, 0.7817),
        },
        "F1": {
            "MF": (87.25, 86.85, 77.31),
            "NMF": (82.68, 83.98, 86.43),
            "CCD++": (87.05, 87.07, 87.12),
            "BMF": (86.29, 86.29, 86.06),
            "BMC-ADMM": (81.93, 78.93, 67.27),
            "Bounded-SVD": (87.02, 87.47, 77.94),
            "MBMF-n": (86.33, 86.30, 86.32),
            "MBMF-c": (85.56, 85.64, 85.63),
        },
    },
    "Ali Mob": {
        "RMSE": {
            "MF": (115.93, 95.286, 61.138),
            "NMF": (235511, 4540.0, 11238),
            "CCD++": (63.087, 59.334, 56.933),
            "BMF": (549.66, 455.34, 380.98),
            "BMC-ADMM": (319.65, 392.39, 593.43),
            "Bounded-SVD": (43.381, 42.810, 41.766),
            "MBMF-n": (42.540, 42.903, 42.999),
            "MBMF-c": (43.273, 43.671, 43.881),
        },
        "MAE": {
            "MF": (29.930, 34.871, 29.975),
            "NMF": (2686.0, 959.17, 1223.1),
            "CCD++": (22.667, 25.103, 26.128),
            "BMF": (507.57, 428.79, 362.07),
            "BMC-ADMM": (157.90, 205.80, 358.47),
            "Bounded-SVD": (15.827, 15.953, 16.438),
            "MBMF-n": (18.963, 18.948, 18.896),
            "MBMF-c": (14.405, 14.329, 14.400),
        },
        "F1": {
            "MF": (38.99, 38.22, 38.76),
            "NMF": (35.90, 34.29, 34.77),
            "CCD++": (39.58, 38.66, 38.29),
            "BMF": (32.07, 32.28, 31.69),
            "BMC-ADMM": (17.70, 18.39, 22.85),
            "Bounded-SVD": (41.83, 42.41, 42.68),
            "MBMF-n": (39.64, 39.70, 39.72),
            "MBMF-c": (43.47, 43.51, 43.56),
        },
    },
}

#: TABLE "Running Time (s) on Different Scales of Matrix": (users, items, density) -> method -> seconds. K = 10.
TABLE1: dict[tuple[int, int, float], dict[str, float]] = {
    (20, 50, 1.0): {"BMF": 0.1497, "BMC-ADMM": 2.2388, "Bounded-SVD": 0.2631, "MBMF-n": 0.3018},
    (100, 100, 1.0): {"BMF": 0.5007, "BMC-ADMM": 8.8932, "Bounded-SVD": 2.6718, "MBMF-n": 0.7857},
    (200, 500, 1.0): {"BMF": 5.7100, "BMC-ADMM": 4.4400, "Bounded-SVD": 23.291, "MBMF-n": 3.0845},
    (1_000, 1_000, 1.0): {"BMF": 313.75, "BMC-ADMM": 14.908, "Bounded-SVD": 201.71, "MBMF-n": 18.293},
    (2_000, 5_000, 1.0): {"BMF": 4753.4, "BMC-ADMM": 128.73, "Bounded-SVD": 2101.3, "MBMF-n": 91.020},
    (100_000, 100_000, 0.001): {"BMC-ADMM": 34025.0, "MBMF-n": 5728.3},
    (200_000, 500_000, 0.0002): {"BMC-ADMM": 442250.0, "MBMF-n": 12251.0},
}

#: TABLE "Statistics of Datasets used for Experiments": users, items, density, range, ordinal.
TABLE2: dict[str, tuple[int, int, float, tuple[float, float], bool]] = {
    "Synthetic": (500, 500, 0.2, (0, 10), False),
    "Jester": (73_421, 100, 0.5634, (-10, 10), False),
    "BookCrossing": (92_184, 270_169, 0.00004, (1, 10), True),
    "Ali Mob": (10_000, 8_916, 0.0101, (1, 6853), True),
}

#: Figure 1, NMF over 1,000 repetitions: density -> ave(σ), max(σ).
FIGURE1: dict[float, tuple[float, float]] = {0.8: (1.68, 2.6), 0.5: (4.00, 9.6), 0.2: (7.95, 18.5)}

#: The computer behind the paper's running times.
MACHINE = "i7-6900K CPU, 16 GB memory, Windows 10"
