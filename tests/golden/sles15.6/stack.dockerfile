# SUSE Linux Enterprise Server 15 SP6, x86_64: plan
#   PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: SUSE Linux Enterprise Server 15 SP6 reached its end of life on 2025-12-31: it receives no more
#   fixes
# warning: driver: skipped, because a container gets them from its host
# warning: activate PackageHub: skipped, because containers use the subscription of the machine that builds
#   them

FROM registry.suse.com/bci/bci-base:15.6

# install gpg2: they download and check the keys of package repositories
# install tar, xz: they download and unpack the files below
# download the signing key D42D0685: packages of sles15 are signed with it
# check the signing key D42D0685 and store it: only the key with the fingerprint
#   610C7B14E068A878070DA4E99CD0A493D42D0685 is imported from the file
# add the NVIDIA repository sles15/x86_64: packages come from
#   https://developer.download.nvidia.com/compute/cuda/repos/sles15/x86_64/, each checked against the key
#   D42D0685
# read the package index of the NVIDIA repository sles15/x86_64: the packages below are found through it
# DL3037: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3037
RUN zypper --non-interactive install --auto-agree-with-licenses gpg2 \
 && zypper --non-interactive install --auto-agree-with-licenses tar xz \
 && mkdir -p -- /var/cache/gpustack/keys \
 && curl --fail --location --proto =https --retry 3 --output /var/cache/gpustack/keys/cuda-sles15-D42D0685.pub \
      https://developer.download.nvidia.com/compute/cuda/repos/sles15/x86_64/D42D0685.pub \
 && install -d -m 0700 -- /var/cache/gpustack/keys/cuda-gnupg \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --yes --output \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --dearmor /var/cache/gpustack/keys/cuda-sles15-D42D0685.pub \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --no-default-keyring --keyring \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --list-keys 610C7B14E068A878070DA4E99CD0A493D42D0685 \
 && install -d -m 0755 -- /etc/pki/rpm-gpg \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --no-default-keyring --keyring \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --yes --armor --output \
      /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 --export 610C7B14E068A878070DA4E99CD0A493D42D0685 \
 && chmod 0644 -- /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
 && rpm --import /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
 && mkdir -p -- /etc/zypp/repos.d \
 && printf '%s\n' \
      '# NVIDIA repository sles15/x86_64; written by gpustack' \
      '[cuda-sles15-x86_64]' \
      'name=NVIDIA repository sles15/x86_64' \
      baseurl=https://developer.download.nvidia.com/compute/cuda/repos/sles15/x86_64/ \
      enabled=1 \
      gpgcheck=1 \
      gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
      autorefresh=1 \
      type=rpm-md \
      >/etc/zypp/repos.d/cuda-sles15.repo \
 && zypper --non-interactive refresh cuda-sles15-x86_64 \
 && zypper clean --all \
 && rm -rf /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN zypper --non-interactive install --auto-agree-with-licenses cuda-toolkit-13-2=13.2.2-1 \
 && zypper clean --all

# install libz1: cuDNN 8.3 and newer loads libz.so.1, and not all of its packages depend on it
# download cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz: pinned by its sha256
# unpack cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz into /usr/local/cuda-13.2: requested (any
#   version); links stay links
# update the loader's cache: the loader finds libraries through its cache
# DL3037: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3037
RUN zypper --non-interactive install --auto-agree-with-licenses libz1 \
 && mkdir -p -- /var/cache/gpustack/cudnn-9.28.0.42 \
 && curl --fail --location --proto =https --retry 3 --output \
      /var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz \
      https://developer.download.nvidia.com/compute/cudnn/redist/cudnn/linux-x86_64/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz \
 && [ "$(sha256sum </var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz)" = '06409e4ab0a78664dc313c5a71d4444e1f8a8cd3eceee74c11c6eef1c9178e1e  -' ] \
 && install -d -m 0755 -- /var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.unpacked \
 && tar --extract --file=/var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz \
      --directory=/var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.unpacked \
      --strip-components=1 --no-same-owner --no-same-permissions \
 && chmod -R a+rX -- /var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.unpacked \
 && install -d -m 0755 -- /usr/local/cuda-13.2/include /usr/local/cuda-13.2/lib64 \
 && cp -R -P --remove-destination -- \
      /var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.unpacked/include/. \
      /usr/local/cuda-13.2/include/ \
 && cp -R -P --remove-destination -- \
      /var/cache/gpustack/cudnn-9.28.0.42/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.unpacked/lib/. \
      /usr/local/cuda-13.2/lib64/ \
 && install -d -m 0755 -- /usr/local/cuda-13.2/.gpustack \
 && touch -- /usr/local/cuda-13.2/.gpustack/cudnn-linux-x86_64-9.28.0.42_cuda13-archive.tar.xz \
 && ldconfig \
 && zypper clean --all \
 && rm -rf /var/cache/gpustack

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="registry.suse.com/bci/bci-base:15.6" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2" \
      gpustack.cudnn="9.28.0.42"
