# Ubuntu 22.04 LTS, x86_64: plan PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: driver: skipped, because a container gets them from its host

FROM docker.io/library/ubuntu:22.04 AS runtime

# read the package indexes of the system: the packages below are found through them
# install ca-certificates, curl, gnupg: they download and check the keys of package repositories
# install ca-certificates, curl, tar, xz-utils: they download and unpack the files below
# download cuda-keyring_1.1-1_all.deb: the package with the repository's key 3bf863cc, fingerprint
#   EB693B3035CD5710E231E123A4B469963BF863CC; its sha256 is pinned here
# add the NVIDIA repository ubuntu2204/x86_64: cuda-keyring contains the source list, its signing key, and the
#   preference for these packages
# read the package index of the NVIDIA repository ubuntu2204/x86_64: the packages below are found through it
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y ca-certificates curl gnupg \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y ca-certificates curl tar xz-utils \
 && mkdir -p -- /var/cache/gpustack/ubuntu2204-x86_64 \
 && curl --fail --location --proto =https --retry 3 --output \
      /var/cache/gpustack/ubuntu2204-x86_64/cuda-keyring_1.1-1_all.deb \
      https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/cuda-keyring_1.1-1_all.deb \
 && [ "$(sha256sum </var/cache/gpustack/ubuntu2204-x86_64/cuda-keyring_1.1-1_all.deb)" = 'd93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df  -' ] \
 && env DEBIAN_FRONTEND=noninteractive dpkg -i /var/cache/gpustack/ubuntu2204-x86_64/cuda-keyring_1.1-1_all.deb \
 && rm -rf /var/lib/apt/lists/* /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y cuda-toolkit-13-2=13.2.2-1 \
 && rm -rf /var/lib/apt/lists/*

# install tensorrt 11.1.0.106: requested (any version); pinned to 11.1.0.106-1+cuda13.3
# hold tensorrt at 11.1.0.106: an ordinary upgrade would install the newest build, perhaps incompatible with
#   this CUDA or driver
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y libnvinfer11=11.1.0.106-1+cuda13.3 \
      libnvinfer-plugin11=11.1.0.106-1+cuda13.3 libnvinfer-vc-plugin11=11.1.0.106-1+cuda13.3 \
      libnvinfer-lean11=11.1.0.106-1+cuda13.3 libnvinfer-dispatch11=11.1.0.106-1+cuda13.3 \
      libnvonnxparsers11=11.1.0.106-1+cuda13.3 libnvinfer-dev=11.1.0.106-1+cuda13.3 \
      libnvinfer-headers-dev=11.1.0.106-1+cuda13.3 libnvinfer-headers-plugin-dev=11.1.0.106-1+cuda13.3 \
      libnvinfer-plugin-dev=11.1.0.106-1+cuda13.3 libnvinfer-vc-plugin-dev=11.1.0.106-1+cuda13.3 \
      libnvinfer-lean-dev=11.1.0.106-1+cuda13.3 libnvinfer-dispatch-dev=11.1.0.106-1+cuda13.3 \
      libnvonnxparsers-dev=11.1.0.106-1+cuda13.3 libnvinfer-safe-headers-dev=11.1.0.106-1+cuda13.3 \
      libnvinfer-bin=11.1.0.106-1+cuda13.3 \
 && apt-mark hold libnvinfer11 libnvinfer-plugin11 libnvinfer-vc-plugin11 libnvinfer-lean11 libnvinfer-dispatch11 \
      libnvonnxparsers11 libnvinfer-dev libnvinfer-headers-dev libnvinfer-headers-plugin-dev libnvinfer-plugin-dev \
      libnvinfer-vc-plugin-dev libnvinfer-lean-dev libnvinfer-dispatch-dev libnvonnxparsers-dev \
      libnvinfer-safe-headers-dev libnvinfer-bin \
 && rm -rf /var/lib/apt/lists/*

FROM runtime AS build

# install git, make: building nv-codec-headers needs them
# download nv-codec-headers-13.0.19.0.tar.gz: pinned by its sha256
# unpack nv-codec-headers-13.0.19.0.tar.gz into /usr/local/src/nv-codec-headers-13.0.19.0: it is built there
# install nv-codec-headers 13.0.19.0 below /usr/local: requested (any version); departs from NVIDIA's guide,
#   which ends this line with cd and a typographic dash: that fails after the headers are installed
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y git make \
 && mkdir -p -- /var/cache/gpustack/nv-codec-headers-13.0.19.0 \
 && curl --fail --location --proto =https --retry 3 --output \
      /var/cache/gpustack/nv-codec-headers-13.0.19.0/nv-codec-headers-13.0.19.0.tar.gz \
      https://github.com/FFmpeg/nv-codec-headers/releases/download/n13.0.19.0/nv-codec-headers-13.0.19.0.tar.gz \
 && [ "$(sha256sum </var/cache/gpustack/nv-codec-headers-13.0.19.0/nv-codec-headers-13.0.19.0.tar.gz)" = '13da39edb3a40ed9713ae390ca89faa2f1202c9dda869ef306a8d4383e242bee  -' ] \
 && install -d -m 0755 -- /usr/local/src/nv-codec-headers-13.0.19.0 \
 && tar --extract --file=/var/cache/gpustack/nv-codec-headers-13.0.19.0/nv-codec-headers-13.0.19.0.tar.gz \
      --directory=/usr/local/src/nv-codec-headers-13.0.19.0 --strip-components=1 --no-same-owner \
      --no-same-permissions \
 && install -d -m 0755 -- /usr/local/src/nv-codec-headers-13.0.19.0/.gpustack \
 && touch -- /usr/local/src/nv-codec-headers-13.0.19.0/.gpustack/nv-codec-headers-13.0.19.0.tar.gz \
 && make -C /usr/local/src/nv-codec-headers-13.0.19.0 install PREFIX=/usr/local \
 && rm -rf /var/lib/apt/lists/* /var/cache/gpustack

# install build-essential, nasm, pkg-config: building ffmpeg needs them
# download ffmpeg-9.0.2.tar.xz: pinned by its sha256
# unpack ffmpeg-9.0.2.tar.xz into /usr/local/src/ffmpeg-9.0.2: it is built there
# configure and build FFmpeg 9.0.2: requested (any version); --enable-nvenc makes configure stop on
#   incompatible headers, which would otherwise silently drop the encoders; nvcc compiles for 8.9, the oldest
#   GPU here: the toolkit may no longer support FFmpeg's default; --enable-nonfree: the GPU filters are
#   compiled by nvcc, and the binary may not be redistributed; all processors build, through ccache where it
#   is installed; departs from NVIDIA's guide, which prints the switch of the CUDA SDK, only a deprecated name
#   by now, and typographic dashes, which configure does not read
# install FFmpeg below /usr/local/ffmpeg-9.0.2 and link it into /usr/local/bin: its own folder keeps it apart
#   from the distribution's FFmpeg, and makes it easy to remove
# DL3008: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3008
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y build-essential nasm pkg-config \
 && mkdir -p -- /var/cache/gpustack/ffmpeg-9.0.2 \
 && curl --fail --location --proto =https --retry 3 --output /var/cache/gpustack/ffmpeg-9.0.2/ffmpeg-9.0.2.tar.xz \
      https://ffmpeg.org/releases/ffmpeg-9.0.2.tar.xz \
 && [ "$(sha256sum </var/cache/gpustack/ffmpeg-9.0.2/ffmpeg-9.0.2.tar.xz)" = '8c3850283eb25fa026482078a04051e0be17347b09ef81a0849bec15a96e002e  -' ] \
 && install -d -m 0755 -- /usr/local/src/ffmpeg-9.0.2 \
 && tar --extract --file=/var/cache/gpustack/ffmpeg-9.0.2/ffmpeg-9.0.2.tar.xz \
      --directory=/usr/local/src/ffmpeg-9.0.2 --strip-components=1 --no-same-owner --no-same-permissions \
 && install -d -m 0755 -- /usr/local/src/ffmpeg-9.0.2/.gpustack \
 && touch -- /usr/local/src/ffmpeg-9.0.2/.gpustack/ffmpeg-9.0.2.tar.xz \
 && env PATH=/usr/local/cuda-13.2/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      PKG_CONFIG_PATH=/usr/local/lib/pkgconfig pkg-config --print-errors --exact-version=13.0.19.0 ffnvcodec \
 && sh -c \
      'export PATH="$1" PKG_CONFIG_PATH=/usr/local/lib/pkgconfig && cd "$2" && shift 2 && if command -v ccache >/dev/null; then set -- "$@" "--cc=ccache gcc"; fi && ./configure "$@"' \
      sh /usr/local/cuda-13.2/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      /usr/local/src/ffmpeg-9.0.2 --prefix=/usr/local/ffmpeg-9.0.2 --enable-nvenc --enable-ffnvcodec --enable-nvdec \
      --enable-cuvid --enable-cuda-nvcc --enable-nonfree '--nvccflags=-gencode arch=compute_89,code=sm_89 -O2' \
 && sh -c 'export PATH="$1" && exec make -C "$2" --jobs="$(nproc)"' sh \
      /usr/local/cuda-13.2/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      /usr/local/src/ffmpeg-9.0.2 \
 && install -d -m 0755 -- /usr/local/src/ffmpeg-9.0.2/.gpustack \
 && touch -- /usr/local/src/ffmpeg-9.0.2/.gpustack/ffmpeg-ffd5b4f38b0c \
 && make -C /usr/local/src/ffmpeg-9.0.2 install \
 && ln -sfn /usr/local/ffmpeg-9.0.2/bin/ffmpeg /usr/local/bin/ffmpeg \
 && ln -sfn /usr/local/ffmpeg-9.0.2/bin/ffprobe /usr/local/bin/ffprobe \
 && install -d -m 0755 -- /usr/local/ffmpeg-9.0.2/.gpustack \
 && touch -- /usr/local/ffmpeg-9.0.2/.gpustack/ffmpeg-ffd5b4f38b0c \
 && rm -rf /var/lib/apt/lists/* /var/cache/gpustack

FROM runtime
COPY --from=build /usr/local/include/ffnvcodec /usr/local/include/ffnvcodec
COPY --from=build /usr/local/lib/pkgconfig/ffnvcodec.pc /usr/local/lib/pkgconfig/ffnvcodec.pc
COPY --from=build /usr/local/ffmpeg-9.0.2 /usr/local/ffmpeg-9.0.2
RUN ln -sfn /usr/local/ffmpeg-9.0.2/bin/ffmpeg /usr/local/bin/ffmpeg \
 && ln -sfn /usr/local/ffmpeg-9.0.2/bin/ffprobe /usr/local/bin/ffprobe

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility,video
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="docker.io/library/ubuntu:22.04" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2" \
      gpustack.tensorrt="11.1.0.106" \
      gpustack.nv-codec-headers="13.0.19.0" \
      gpustack.ffmpeg="9.0.2"
