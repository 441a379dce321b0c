"""System parameters: knobs that change between epochs, what is known of similar work, and who decides."""
