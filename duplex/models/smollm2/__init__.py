"""SmolLM2-135M-Instruct: a small chat model, run by llama.cpp."""
