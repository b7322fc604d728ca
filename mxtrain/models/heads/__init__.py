"""Heads of nets that classify: of cosines, and of very many classes in chunks."""
