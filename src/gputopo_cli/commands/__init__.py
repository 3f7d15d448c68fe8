"""Options and help of each command; they import what does the work when it is to be done."""
