"""Image-sentence matching that shows what it looked at (sm-LSTM, CVPR 2017)."""

__version__ = "0.1.0"
