"""A kernel that ends its process with a good exit code before it has computed anything."""

import os

os._exit(0)
