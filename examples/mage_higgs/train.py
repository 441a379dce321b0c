"""Trains XGBoost on the Higgs challenge's training.csv as it was published: signal or background."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("HIGGS", "training.csv"), help="training.csv")
    parser.add_argument("--quick", action="store_true", help="few rows, few trees")
    args = parser.parse_args()
    data = pd.read_csv(args.data, nrows=2000 if args.quick else None)
    #ABLATION_HINT_START
    # The ablation study should consist of the following feature ablation trials:
    # - remove 'DER_mass_transverse_met_lep'
    # - remove 'DER_mass_vis'
    # - remove 'DER_pt_h'
    # - remove 'DER_deltaeta_jet_jet'
    # - remove 'DER_mass_jet_jet'
    # - remove 'DER_prodeta_jet_jet'
    # - remove pairs of the above features, one pair at a time
    #ABLATION_HINT_END
    data["Label"] = data["Label"].map({"s": 1, "b": 0})
    features = data.drop(columns=["EventId", "Weight", "Label"]).replace(-999.0, np.nan)
    order = np.random.default_rng(args.seed).permutation(len(data))
    train, test = order[: len(data) * 4 // 5], order[len(data) * 4 // 5 :]
    model = xgboost.XGBClassifier(
        n_estimators=20 if args.quick else 300, max_depth=6, learning_rate=0.1, n_jobs=1, random_state=args.seed
    )
    model.fit(features.iloc[train], data["Label"].iloc[train])
    found = float((model.predict(features.iloc[test]) == data["Label"].iloc[test]).mean())
    print(f"accuracy: {found:.4f}")
    Path("metrics.json").write_text(json.dumps({"accuracy": found}))


if __name__ == "__main__":
    main()
