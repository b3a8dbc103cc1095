# Azure Linux 3, x86_64: plan PLAN
# docker build --platform linux/amd64 --tag NAME - <THIS-FILE; run with --gpus all
# warning: driver: skipped, because a container gets them from its host

FROM mcr.microsoft.com/azurelinux/base/core:3.0

# install gnupg2: they download and check the keys of package repositories
# add the extended repository: NVIDIA's packages depend on packages that are there
# download the signing key D42D0685: packages of azl3 are signed with it
# check the signing key D42D0685 and store it: only the key with the fingerprint
#   610C7B14E068A878070DA4E99CD0A493D42D0685 is imported from the file
# add the NVIDIA repository azl3/x86_64: packages come from
#   https://developer.download.nvidia.com/compute/cuda/repos/azl3/x86_64/, each checked against the key
#   D42D0685
RUN tdnf -y install gnupg2 \
 && tdnf -y install azurelinux-repos-extended \
 && mkdir -p -- /var/cache/gpustack/keys \
 && curl --fail --location --proto =https --retry 3 --output /var/cache/gpustack/keys/cuda-azl3-D42D0685.pub \
      https://developer.download.nvidia.com/compute/cuda/repos/azl3/x86_64/D42D0685.pub \
 && install -d -m 0700 -- /var/cache/gpustack/keys/cuda-gnupg \
 && gpg --homedir /var/cache/gpustack/keys/cuda-gnupg --batch --yes --output \
      /var/cache/gpustack/keys/cuda-gnupg/all.gpg --dearmor /var/cache/gpustack/keys/cuda-azl3-D42D0685.pub \
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
      '# NVIDIA repository azl3/x86_64; written by gpustack' \
      '[cuda-azl3-x86_64]' \
      'name=NVIDIA repository azl3/x86_64' \
      baseurl=https://developer.download.nvidia.com/compute/cuda/repos/azl3/x86_64/ \
      enabled=1 \
      gpgcheck=1 \
      gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685 \
      >/etc/yum.repos.d/cuda-azl3.repo \
 && tdnf clean all \
 && rm -rf /var/cache/tdnf /var/cache/gpustack

# install cuda 13.2.2: requested (any version); pinned to 13.2.2-1
RUN tdnf -y install cuda-toolkit-13-2-13.2.2-1 \
 && tdnf clean all \
 && rm -rf /var/cache/tdnf

ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV PATH=/usr/local/cuda-13.2/bin:${PATH}
LABEL org.opencontainers.image.base.name="mcr.microsoft.com/azurelinux/base/core:3.0" \
      gpustack.plan="PLAN" \
      gpustack.cuda="13.2.2"
