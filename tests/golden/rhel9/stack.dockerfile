# Red Hat Enterprise Linux 9, x86_64: plan PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: driver: skipped, because a container gets them from its host
# warning: enable CodeReady Builder: skipped, because containers use the subscription of the machine that
#   builds them

FROM registry.access.redhat.com/ubi9/ubi:9.7

# install gnupg2: they download and check the keys of package repositories
# download the signing key D42D0685: packages of rhel9 are signed with it
# check the signing key D42D0685 and store it: only the key with the fingerprint
#   610C7B14E068A878070DA4E99CD0A493D42D0685 is imported from the file
# add the NVIDIA repository rhel9/x86_64: packages come from
#   https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/, each checked against the key
#   D42D0685
# DL3041: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3041
RUN dnf -y install gnupg2 \
 && mkdir -p -- /var/cache/gpustack/keys \
 && curl --fail --location --proto =https --retry 3 --output /var/cache/gpustack/keys/cuda-rhel9-D42D0685.pub \
      https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/D42D0685.pub \
 && install -d -m 0700 -- /var/cache/gpustack/keys/cuda-gnupg \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --yes --output \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --dearmor /var/cache/gpustack/keys/cuda-rhel9-D42D0685.pub \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --no-default-keyring --keyring \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --list-keys 610C7B14E068A878070DA4E99CD0A493D42D0685 \
 && install -d -m 0755 -- /etc/pki/rpm-gpg \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --no-default-keyring --keyring \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --yes --armor --output \
      /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 --export 610C7B14E068A878070DA4E99CD0A493D42D0685 \
 && chmod 0644 -- /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
 && rpm --import /etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
 && mkdir -p -- /etc/yum.repos.d \
 && printf '%s\n' \
      '# NVIDIA repository rhel9/x86_64; written by gpustack' \
      '[cuda-rhel9-x86_64]' \
      'name=NVIDIA repository rhel9/x86_64' \
      baseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/ \
      enabled=1 \
      gpgcheck=1 \
      gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
      >/etc/yum.repos.d/cuda-rhel9.repo \
 && dnf clean all \
 && rm -rf /var/cache/dnf /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN dnf -y install cuda-toolkit-13-2-13.2.2-1 \
 && dnf clean all \
 && rm -rf /var/cache/dnf

# install zlib: cuDNN 8.3 and newer loads libz.so.1, and not all of its packages depend on it
# install cudnn 9.14.0.64: requested (any version); pinned to 9.14.0.64-1
# hold cudnn at 9.14.0.64: an ordinary upgrade would install the newest build, perhaps incompatible with this
#   CUDA or driver
# DL3041: archives of distributions keep one version only, so that a pin breaks the build of tomorrow
# hadolint ignore=DL3041
RUN dnf -y install zlib \
 && dnf -y install libcudnn9-cuda-13-9.14.0.64-1 libcudnn9-devel-cuda-13-9.14.0.64-1 \
 && dnf -y install 'dnf-command(versionlock)' \
 && dnf -y versionlock add libcudnn9-cuda-13 libcudnn9-devel-cuda-13 \
 && dnf clean all \
 && rm -rf /var/cache/dnf

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="registry.access.redhat.com/ubi9/ubi:9.7" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2" \
      gpustack.cudnn="9.14.0.64"
