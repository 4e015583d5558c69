"""Predictions of LightGBM and scikit-learn for rows that predictpeers has written.

    peers.py DIR MODEL

DIR/rows.json has the number of rows and features, the order in which rows become known, and the trainings: each has how
many rows are known by then, and how many were asked for before. DIR/x and DIR/y have the features and the answers. A
training uses the rows that are known, and predicts those that are asked for until the next one. The program writes
P10, P50 and P90 of each row to DIR/MODEL (NaN before the first training), and prints the CPU seconds as JSON.
"""

import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait for each other count as CPU time

import numpy as np

QUANTILES = 0.1, 0.5, 0.9
ROUNDS, LEAVES, RATE, ROWS = 100, 31, 0.1, 20


def lightgbm(quantile):
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        objective="quantile",
        alpha=quantile,
        n_estimators=ROUNDS,
        num_leaves=LEAVES,
        learning_rate=RATE,
        min_child_samples=ROWS,
        num_threads=1,
        seed=1,
        verbosity=-1,
    )


def sklearn(quantile):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        loss="quantile",
        quantile=quantile,
        max_iter=ROUNDS,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        min_samples_leaf=ROWS,
        early_stopping=False,
        random_state=1,
    )


def same(y):
    return y


# For each model: the function that trains it, the transformation of the seconds, and its inverse.
MODELS = {
    "lightgbm": (lightgbm, same, same),
    "lightgbm-log": (lightgbm, np.log1p, np.expm1),
    "scikit-learn": (sklearn, same, same),
    "scikit-learn-log": (sklearn, np.log1p, np.expm1),
}


def main(directory, name):
    make, scale, back = MODELS[name]
    with open(os.path.join(directory, "rows.json")) as f:
        rows = json.load(f)
    x = np.fromfile(os.path.join(directory, "x"), "<f4").reshape(rows["rows"], rows["features"])
    y = np.fromfile(os.path.join(directory, "y"), "<f8")
    known = np.array(rows["known"])
    out = np.full((rows["rows"], len(QUANTILES)), np.nan)
    # This first training loads libraries, so that their loading does not count as training time.
    make(0.5).fit(np.arange(1000.0).reshape(100, 10), np.arange(100.0))
    training = prediction = 0.0
    for i, (learned, asked) in enumerate(rows["trainings"]):
        until = rows["trainings"][i + 1][1] if i + 1 < len(rows["trainings"]) else rows["rows"]
        began = time.process_time()
        learn = known[:learned]
        table = x[learn]
        # scikit-learn 1.9 fails on constant features.
        varied = np.fmin.reduce(table) < np.fmax.reduce(table)
        models = [make(q).fit(table[:, varied], scale(y[learn])) for q in QUANTILES]
        trained = time.process_time()
        if until > asked:
            for k, model in enumerate(models):
                out[asked:until, k] = back(model.predict(x[asked:until][:, varied]))
        training += trained - began
        prediction += time.process_time() - trained
    out.astype("<f8").tofile(os.path.join(directory, name))
    print(json.dumps({"training_s": training, "prediction_s": prediction}))


main(*sys.argv[1:])
