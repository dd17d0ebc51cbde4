import logging
from importlib.util import find_spec

logger = logging.getLogger(__name__)

HAS_TRITON = False

if not HAS_TRITON:
    logger.info("There is no Triton, so some functions"
                " are missing.")
