# Every target works from a fresh clone: it first installs and builds what it needs.

.DEFAULT_GOAL := help
.PHONY: help build image test matrix compat skew soak lint generate structure demo dashboards bench clean

# npm writes this file last.
installed := node_modules/.package-lock.json

$(installed): package-lock.json
	@echo '== Installing the packages of package-lock.json'
	npm ci --loglevel=error
	@touch $@

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(installed) ## Bundle the agent, the controller and the API server into dist/
	@echo '== Building the programs'
	@npm run --silent build

IMAGE ?= bottlerocket-update-operator
PLATFORM ?= linux/$(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(shell uname -m)))
container_engine = $(firstword $(notdir $(wildcard $(addsuffix /docker,$(subst :, ,$(PATH))) \
  $(addsuffix /podman,$(subst :, ,$(PATH))))))

image: ## Build the image with Docker or Podman; IMAGE=NAME:TAG names it, PLATFORM=linux/arm64 for another machine
	@echo '== Building the image $(IMAGE)'
	@test -n '$(container_engine)' || { echo 'make image: expected docker or podman, found neither' >&2; exit 1; }
	@DOCKER_BUILDKIT=1 $(container_engine) build --platform '$(PLATFORM)' --tag '$(IMAGE)' \
	  --build-arg REVISION="$$(git describe --always --dirty --abbrev=40 --exclude='*' || echo unknown)" .

test: $(installed) ## Run all tests; TESTS='--projects unit PATH' runs some of them
	@echo '== Running the tests'
	@npm run --silent test -- $(TESTS)

matrix: $(installed) ## Run the matrix of faults: every fault at every step; CASE='etcd is killed' runs one case
	@echo '== Running the matrix of faults'
	@CASE="$(CASE)" npm run --silent test -- --projects connections,matrix $(TESTS)

compat: $(installed) ## Run the tests of the chart and a rollout on the oldest supported Kubernetes
	@echo '== Running tests on the oldest supported Kubernetes'
	@npm run --silent compat

skew: $(installed) ## Run programs of this commit and of the former release in one fleet, and upgrade and roll back its chart
	@echo '== Running two releases in one fleet'
	@npm run --silent skew

lint: $(installed) ## Check types, style, format and the direction of imports
	@echo '== Checking types, style, format and imports'
	@npm run --silent lint

structure: $(installed) ## Print lines, files and room imports of each package, and imports that run upward
	@npm run --silent structure

generate: $(installed) ## Write the CRDs and the reference of the configuration, and NOTICE
	@echo '== Generating from the schemas and the bundles'
	@npm run --silent generate

demo: $(installed) ## Watch the operator update a fleet of stand-in nodes
	@echo '== Starting the demonstration'
	@npm run --silent build
	@npm run --silent demo

dashboards: $(installed) ## Watch the fleet of the demonstration in Prometheus and on the dashboards, at the address that is printed
	@echo '== Starting the demonstration with dashboards'
	@npm run --silent build
	@npm run --silent demo -- --dashboards

bench: $(installed) ## Measure time, requests, watches and memory of the operator
	@echo '== Measuring'
	@npm run --silent build
	@npm run --silent bench

soak: $(installed) ## Inject random faults; FAULTS=1000 sets how many, SEED=7 repeats a run, CAREFUL=1 turns on every check
	@echo '== Injecting random faults'
	@npm run --silent build
	@FAULTS=$(FAULTS) SEED=$(SEED) CAREFUL=$(CAREFUL) npm run --silent soak

clean: ## Remove what the other targets made, and the installed packages
	@echo '== Removing dist/, reports/ and node_modules/'
	@rm -rf dist reports node_modules
