"""Writes a table of the shape of the Higgs challenge's training.csv; its numbers are drawn and mean nothing."""

import argparse

import numpy as np
import pandas as pd

FEATURES = """
DER_mass_MMC DER_mass_transverse_met_lep DER_mass_vis DER_pt_h DER_deltaeta_jet_jet DER_mass_jet_jet
DER_prodeta_jet_jet DER_deltar_tau_lep DER_pt_tot DER_sum_pt DER_pt_ratio_lep_tau DER_met_phi_centrality
DER_lep_eta_centrality PRI_tau_pt PRI_tau_eta PRI_tau_phi PRI_lep_pt PRI_lep_eta PRI_lep_phi PRI_met PRI_met_phi
PRI_met_sumet PRI_jet_num PRI_jet_leading_pt PRI_jet_leading_eta PRI_jet_leading_phi PRI_jet_subleading_pt
PRI_jet_subleading_eta PRI_jet_subleading_phi PRI_jet_all_pt
""".split()
"""The thirty, in the order of the published file."""

OF_TWO_JETS = [name for name in FEATURES if "jet_jet" in name or "subleading" in name or "lep_eta" in name][:7]
"""Some of those that are missing, -999, where there are fewer than two jets."""


def table(rows, seed=0):
    draw = np.random.default_rng(seed)
    signal = draw.random(rows) < 0.34
    values = {name: draw.normal(60, 25, rows) for name in FEATURES}
    values["PRI_jet_num"] = draw.integers(0, 4, rows)
    for nth, name in enumerate(FEATURES[1:7]):
        values[name] = values[name] + signal * (30 - 4 * nth)
    for name in OF_TWO_JETS:
        values[name] = np.where(values["PRI_jet_num"] < 2, -999.0, values[name])
    return pd.DataFrame(
        {
            "EventId": np.arange(100000, 100000 + rows),
            **{name: np.round(values[name], 3) for name in FEATURES},
            "Weight": np.where(signal, 0.005, 2.0) * draw.random(rows),
            "Label": np.where(signal, "s", "b"),
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--rows", type=int, default=2000)
    args = parser.parse_args()
    table(args.rows).to_csv(args.path, index=False)
