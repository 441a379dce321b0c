"""What an ablation takes away: components, what they match, and which combinations are tried."""
