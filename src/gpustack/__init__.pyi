from gpustack.api import check as check
from gpustack.api import describe as describe
from gpustack.api import detect as detect
from gpustack.api import image_content as image_content
from gpustack.api import plan as plan
from gpustack.api import render as render
from gpustack.api import to_dict as to_dict
from gpustack.api import verify as verify

__version__: str
