"""Writes model files of this version, if there are none."""

import privboost
from tests.stored import FOLDER, write

write(FOLDER / privboost.__version__)
