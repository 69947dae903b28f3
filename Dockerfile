# One image for the agent, the controller and the API server; the pod's arguments say which one runs.
# Other base images, such as mirrored ones: --build-arg BUILD_IMAGE=… --build-arg RUNTIME_IMAGE=…
ARG BUILD_IMAGE=node:24.21.0-slim
ARG RUNTIME_IMAGE=node:24.21.0-slim

# The bundles are JavaScript alone, so they are built once, on the machine's own architecture.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY packages/agent/package.json packages/agent/
COPY packages/apiserver/package.json packages/apiserver/
COPY packages/controller/package.json packages/controller/
COPY packages/shared/package.json packages/shared/
RUN npm ci
COPY packages packages
COPY scripts/build.ts scripts/
RUN npm run build

FROM ${RUNTIME_IMAGE}
WORKDIR /app
COPY --from=build /src/dist/ ./
# The agent's pod sets another user: see agent.runAsUser in the chart's values.
USER 65532:65532
ENTRYPOINT ["node"]
