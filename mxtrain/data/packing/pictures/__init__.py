"""The packing of pictures: their inspection, what becomes of them, and the fingerprints by which copies are found."""
