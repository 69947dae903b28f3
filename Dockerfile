# One image for the agent, the controller and the API server; the arguments of the container choose the program.
# It has Node.js, the libraries that Node.js loads, and the programs: no shell and no package manager.
# The base is only built with, except for the libraries, which come from its Debian. It is pinned by its digest;
# docs/release.md shows how to change it. A mirrored one: --build-arg BASE_IMAGE=NAME@sha256:…
ARG BASE_IMAGE=node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

# The base of the image's architecture. Nothing in it is run.
FROM ${BASE_IMAGE} AS system

# The bundles are plain JavaScript, so they are built on the architecture of the build machine.
FROM --platform=$BUILDPLATFORM ${BASE_IMAGE} AS build
ARG BASE_IMAGE
RUN case "${BASE_IMAGE}" in *@sha256:*) ;; *) echo "expected BASE_IMAGE with a digest, found ${BASE_IMAGE}" >&2; exit 1 ;; esac
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY scripts/node-bin-setup scripts/node-bin-setup/
COPY packages/agent/package.json packages/agent/
COPY packages/apiserver/package.json packages/apiserver/
COPY packages/cli/package.json packages/cli/
COPY packages/controller/package.json packages/controller/
COPY packages/shared/package.json packages/shared/
RUN npm ci
COPY LICENSE-APACHE LICENSE-MIT ./
COPY packages packages
COPY scripts/build.ts scripts/bundle.ts scripts/notice.ts scripts/sbom.ts scripts/image-root.ts scripts/
# The commit of the sources, which the programs report. The context has no clone.
ARG REVISION=unknown
RUN npm run build && npm run sbom
ARG TARGETARCH
RUN --mount=type=bind,from=system,source=/,target=/system \
    npm run image-root -- --architecture "${TARGETARCH}" --system /system --output /image

FROM scratch
ARG REVISION=unknown
# scripts/release.ts writes the version.
LABEL org.opencontainers.image.title="bottlerocket-update-operator" \
  org.opencontainers.image.description="Keeps the Bottlerocket nodes of a Kubernetes cluster up to date" \
  org.opencontainers.image.licenses="Apache-2.0 OR MIT" \
  org.opencontainers.image.source=https://github.com/bottlerocket-os/bottlerocket-update-operator \
  org.opencontainers.image.version=0.1.0 \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image/ /
WORKDIR /app
# The agent's pod sets another user: agent.runAsUser in the values of the chart.
USER 65532:65532
# glibc gives memory back: it has one arena, not eight for each core, and the size from which it maps a buffer of its own
# does not grow with the buffers that it has seen (docs/adr/0079).
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072
ENTRYPOINT ["/usr/bin/node"]
