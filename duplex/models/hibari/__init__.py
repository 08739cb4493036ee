"""hibari: English speech synthesis in two parts, an acoustic network and a vocoder of plain signal processing."""
