"""The version that the server tells: that of the package, with a mark that it is patched."""

from vllm.version import __version__

BUILD_NAME = f"{__version__}{'.' if '+' in __version__ else '+'}patched"
