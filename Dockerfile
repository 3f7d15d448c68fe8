# The image of one component. Build with the repository root as context:
#   docker build --build-arg COMPONENT=extender -t gputopo-extender .
# COMPONENT is operator, extender, deviceplugin or mps. BASE may be any image with Python 3.11 or later
# and its venv module. No step depends on the architecture: --platform linux/arm64 builds for arm64.
ARG BASE=python:3.13-slim
ARG COMPONENT

FROM ${BASE} AS build
ENV UV_PYTHON_DOWNLOADS=never UV_NATIVE_TLS=1 UV_LINK_MODE=copy UV_NO_CACHE=1 \
    UV_PROJECT_ENVIRONMENT=/opt/venv
# uv and the build backend, from uv.lock and with its hashes.
COPY tools/images/build.txt /opt/build.txt
RUN python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /opt/build.txt
RUN python3 -m venv --without-pip /opt/venv
WORKDIR /build
# Dependencies come from uv.lock, in a layer of their own, before the sources.
COPY pyproject.toml uv.lock ./
ARG COMPONENT
RUN /opt/uv/bin/uv sync --locked --no-default-groups --compile-bytecode --extra ${COMPONENT} --no-install-project
# The SBOM (CycloneDX) lists exactly the installed packages, with the hashes of the lock file.
COPY tools/images/sbom.py ./
RUN /opt/uv/bin/uv export --quiet --preview-features sbom-export --format cyclonedx1.5 --locked \
    --no-default-groups --extra ${COMPONENT} > locked.json \
    && python3 sbom.py ${COMPONENT} /opt/venv/lib/python3.*/site-packages < locked.json \
    > /opt/venv/sbom.cdx.json
# The wheel is built from the packages that the component imports: no command line, no simulator,
# no catalogue of servers, no other component. Commands whose package is missing are removed.
COPY README.md LICENSE ./
COPY src/gputopo src/gputopo
COPY src/gputopo_kube src/gputopo_kube
COPY src/gputopo_cluster src/gputopo_cluster
COPY src/gputopo_scheduling src/gputopo_scheduling
COPY ${COMPONENT}/gputopo_${COMPONENT} ${COMPONENT}/gputopo_${COMPONENT}
RUN /opt/uv/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir dist . \
    && /opt/uv/bin/uv pip install --python /opt/venv/bin/python --no-deps --compile-bytecode \
    --target /opt/gputopo dist/*.whl \
    && mv /opt/gputopo/bin/gputopo-${COMPONENT} /opt/command && rm /opt/gputopo/bin/* \
    && mv /opt/command /opt/gputopo/bin/gputopo-${COMPONENT} && rm -r /opt/gputopo/gputopo/catalogue \
    && case ${COMPONENT} in extender|operator) ;; *) rm -r /opt/gputopo/gputopo_cluster /opt/gputopo/gputopo_scheduling;; esac

# Only what was installed is copied: no sources, no uv, no build tools. The dependencies have a
# layer of their own, so that a new version of gputopo is a small one.
FROM ${BASE} AS runtime
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/gputopo /opt/gputopo
# Bytecode was compiled above and the root file system may be read-only; PYTHONSAFEPATH keeps the
# working directory off sys.path. numpy multiplies no matrices here: it needs no thread per CPU.
ENV PATH=/opt/gputopo/bin:/opt/venv/bin:$PATH PYTHONPATH=/opt/gputopo PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1
LABEL org.opencontainers.image.licenses="Apache-2.0"

FROM runtime AS operator
LABEL org.opencontainers.image.title="gputopo-operator" \
      org.opencontainers.image.description="Operator of gputopo: runs GPUJobs as Jobs"
# It uses nothing of the host: any user but root will do.
USER 65532:65532
ENTRYPOINT ["gputopo-operator"]

FROM runtime AS extender
LABEL org.opencontainers.image.title="gputopo-extender" \
      org.opencontainers.image.description="Scheduler extender of gputopo: filter, prioritize and bind with exact GPUs"
USER 65532:65532
ENTRYPOINT ["gputopo-extender"]

FROM runtime AS deviceplugin
LABEL org.opencontainers.image.title="gputopo-deviceplugin" \
      org.opencontainers.image.description="Node agent of gputopo: GPU topology and kubelet device plugin"
# Root is needed here, and only here: kubelet's device-plugin and pod-resources folders belong to
# root with modes 0750 and 0700. The agent needs no capability. On real GPUs NVML opens /dev/nvidia*,
# which the NVIDIA container runtime allows, or privileged mode where there is no such runtime.
USER 0:0
ENTRYPOINT ["gputopo-deviceplugin"]

FROM runtime AS mps
LABEL org.opencontainers.image.title="gputopo-mps" \
      org.opencontainers.image.description="MPS of gputopo: control daemons for shared GPUs"
# It sets compute modes and runs daemons for clients of all users, so it runs as root. NVIDIA's
# container runtime puts the control program of the driver into the container.
USER 0:0
ENTRYPOINT ["gputopo-mps"]

FROM ${COMPONENT}
