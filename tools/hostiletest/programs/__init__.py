"""Programs of containers of a hostile tenant; each is the text after ``python3 -c``."""
