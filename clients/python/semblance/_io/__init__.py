"""What blocks, for the two halves of the client."""
