# Debian 12, x86_64: plan PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: Debian 12 reached the end of its ordinary support on 2026-07-11; long-term support lasts to
#   2028-06-30
# warning: driver: skipped, because a container gets them from its host

FROM docker.io/library/debian:12

# add the component contrib to deb822 sources: NVIDIA's packages depend on packages that are there; nothing is
#   changed where it is already
# add the component contrib to one-line sources: the same for systems whose archive stands in sources.list
# read the package indexes of the system: the packages below are found through them
# install ca-certificates, curl, gnupg: they download and check the keys of package repositories
# download cuda-keyring_1.1-1_all.deb: the package with the repository's key 3bf863cc, fingerprint
#   EB693B3035CD5710E231E123A4B469963BF863CC; its sha256 is pinned here
# add the NVIDIA repository debian12/x86_64: cuda-keyring contains the source list, its signing key, and the
#   preference for these packages
# read the package index of the NVIDIA repository debian12/x86_64: the packages below are found through it
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && find /etc/apt/sources.list.d -name debian.sources -exec sed -i -E -e '/^Components:/{/contrib/!s/$/ contrib/}' \
      '{}' + \
 && find /etc/apt -maxdepth 1 -name sources.list -exec sed -i -E -e \
      '/^deb .* main/{/contrib/!s/ main/ main contrib/}' '{}' + \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y ca-certificates curl gnupg \
 && mkdir -p -- /var/cache/gpustack/debian12-x86_64 \
 && curl --fail --location --proto =https --retry 3 --output \
      /var/cache/gpustack/debian12-x86_64/cuda-keyring_1.1-1_all.deb \
      https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb \
 && [ "$(sha256sum </var/cache/gpustack/debian12-x86_64/cuda-keyring_1.1-1_all.deb)" = 'e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d  -' ] \
 && env DEBIAN_FRONTEND=noninteractive dpkg -i /var/cache/gpustack/debian12-x86_64/cuda-keyring_1.1-1_all.deb \
 && rm -rf /var/lib/apt/lists/* /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y cuda-toolkit-13-2=13.2.2-1 \
 && rm -rf /var/lib/apt/lists/*

# install zlib1g: cuDNN 8.3 and newer loads libz.so.1, and not all of its packages depend on it
# install cudnn 9.22.0.52: requested (any version); pinned to 9.22.0.52-1
# hold cudnn at 9.22.0.52: an ordinary upgrade would install the newest build, perhaps incompatible with this
#   CUDA or driver
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y zlib1g \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y libcudnn9-cuda-13=9.22.0.52-1 \
      libcudnn9-dev-cuda-13=9.22.0.52-1 libcudnn9-headers-cuda-13=9.22.0.52-1 \
 && apt-mark hold libcudnn9-cuda-13 libcudnn9-dev-cuda-13 libcudnn9-headers-cuda-13 \
 && rm -rf /var/lib/apt/lists/*

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="docker.io/library/debian:12" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2" \
      gpustack.cudnn="9.22.0.52"
