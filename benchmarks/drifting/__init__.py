"""What becomes of an edit when its base moves on: sampled edits, the forms they are written in, and who judges them."""
