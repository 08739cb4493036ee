"""Smart Turn: the probability that a speaker who has fallen silent is done."""
