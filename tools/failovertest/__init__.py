"""The leading scheduler killed or frozen while it places pods: who goes on, after how long."""
