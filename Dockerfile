# One image for the agent, the controller and the API server; the arguments of the container choose the program.
# Other base images, such as mirrored ones: --build-arg BUILD_IMAGE=… --build-arg RUNTIME_IMAGE=…
ARG BUILD_IMAGE=node:24.21.0-slim
ARG RUNTIME_IMAGE=node:24.21.0-slim

# The bundles are plain JavaScript, so they are built once, on the architecture of the build machine.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY scripts/node-bin-setup scripts/node-bin-setup/
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
# The agent's pod sets another user: agent.runAsUser in the values of the chart.
USER 65532:65532
ENTRYPOINT ["node"]
