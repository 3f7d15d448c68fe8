"""The runtime side of NRI that containerd uses, as a program, to test the agent's plugin."""
