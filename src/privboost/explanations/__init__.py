"""What a model says of itself: shapes, pairs, trees, lists, and what is worth a look."""
