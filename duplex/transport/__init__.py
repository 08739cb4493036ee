"""Wire to session events, and back."""
