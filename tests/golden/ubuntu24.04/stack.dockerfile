# Ubuntu 24.04 LTS, x86_64: plan PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: driver: skipped, because a container gets them from its host

FROM docker.io/library/ubuntu:24.04

# read the package indexes of the system: the packages below are found through them
# install ca-certificates, curl, gnupg: they download and check the keys of package repositories
# download cuda-keyring_1.1-1_all.deb: the package with the repository's key 3bf863cc, fingerprint
#   EB693B3035CD5710E231E123A4B469963BF863CC; its sha256 is pinned here
# add the NVIDIA repository ubuntu2404/x86_64: cuda-keyring contains the source list, its signing key, and the
#   preference for these packages
# read the package index of the NVIDIA repository ubuntu2404/x86_64: the packages below are found through it
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y ca-certificates curl gnupg \
 && mkdir -p -- /var/cache/gpustack/ubuntu2404-x86_64 \
 && curl --fail --location --proto =https --retry 3 --output \
      /var/cache/gpustack/ubuntu2404-x86_64/cuda-keyring_1.1-1_all.deb \
      https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/cuda-keyring_1.1-1_all.deb \
 && [ "$(sha256sum </var/cache/gpustack/ubuntu2404-x86_64/cuda-keyring_1.1-1_all.deb)" = 'd2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba  -' ] \
 && env DEBIAN_FRONTEND=noninteractive dpkg -i /var/cache/gpustack/ubuntu2404-x86_64/cuda-keyring_1.1-1_all.deb \
 && rm -rf /var/lib/apt/lists/* /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y cuda-toolkit-13-2=13.2.2-1 \
 && rm -rf /var/lib/apt/lists/*

# install zlib1g: cuDNN 8.3 and newer loads libz.so.1, and not all of its packages depend on it
# install cudnn 9.23.2.1: requested (any version); pinned to 9.23.2.1-1
# hold cudnn at 9.23.2.1: an ordinary upgrade would install the newest build, perhaps incompatible with this
#   CUDA or driver
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y zlib1g \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y libcudnn9-cuda-13=9.23.2.1-1 \
      libcudnn9-dev-cuda-13=9.23.2.1-1 libcudnn9-headers-cuda-13=9.23.2.1-1 \
 && apt-mark hold libcudnn9-cuda-13 libcudnn9-dev-cuda-13 libcudnn9-headers-cuda-13 \
 && rm -rf /var/lib/apt/lists/*

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="docker.io/library/ubuntu:24.04" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2" \
      gpustack.cudnn="9.23.2.1"
