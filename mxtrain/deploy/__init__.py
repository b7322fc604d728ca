"""From a trained net to what others run: its plain graph, exports of it, and proofs that they answer as it does."""
