"""A stand-in for CUDA MPS: control program, server and clients, without a GPU.

It behaves as NVIDIA documents the programs. What it adds: it rejects clients whose settings are
wrong, where the real MPS would accept them without a limit.
"""
