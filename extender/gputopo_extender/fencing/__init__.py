"""Claims in the Lease and Bindings, safe with several extenders (ADR 8)."""
