"""Where programs run.

jaxlib announces its client on stderr unless this variable says that warnings are enough; it is read once, at import.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
