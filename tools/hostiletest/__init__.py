"""A tenant that attacks its neighbours, with the rights of an ordinary namespace."""
