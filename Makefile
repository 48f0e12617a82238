# Targets with a ## line are listed by `make help`.
SHELL := /bin/bash
CACHE ?= $(or $(STREAMGAUGE_CACHE),$(HOME)/.cache/streamgauge)
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/tools/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
# Built with the Go that it reads programs of.
GOVULNCHECK_VERSION := v1.9.0
# Releases are built with this Go: known vulnerabilities of older ones are fixed in it.
RELEASE_GO := go1.27.3
GOVULNCHECK = $(CACHE)/tools/govulncheck-$(GOVULNCHECK_VERSION)-$(RELEASE_GO)/govulncheck
FUZZTIME ?= 20s
SOAKTIME ?= 20m

.PHONY: help build test lint fmt e2e truth bench behave bench-loadgen bench-proxy chaos chaos-loadgen fuzz many soak vuln demo browser screenshots engines clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build both programs into bin/
	go build -trimpath -o bin/ ./cmd/...

test: ## all tests with the race detector; then, without it, allocation ceilings, the demo and the published matrices
	go test -race -shuffle=on ./...
	go test -p 1 -run 'Alloc|Demo|Seeds' ./...

lint: $(GOLANGCI) ## go vet and golangci-lint
	go vet ./...
	$(GOLANGCI) run ./...

$(GOLANGCI):
	GOBIN=$(dir $@) go install -trimpath github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

fmt: ## gofmt the tree
	gofmt -w $$(git ls-files '*.go')

e2e: engines ## real llama.cpp and vLLM, behind the proxy, driven by loadgen (installs them once)
	STREAMGAUGE_E2E=1 go test -count=1 -timeout 20m -v ./e2e

engines: ## install the real engines into the cache without running a test
	go run ./enginetest/cmd/engines install llamacpp vllm

truth: ## our token instants against a ground-truth emitter (needs STREAMGAUGE_SHARED)
	go run ./internal/truth

bench: ## the token path: ns and allocations an event, beside crc64 of the same bytes
	go test -run '^$$' -bench . -benchmem ./hist ./detect ./wire ./stream ./proxy

bench-loadgen: ## loadgen's numbers and cost beside a ground truth (needs STREAMGAUGE_SHARED, two cores)
	go run ./internal/benchloadgen

chaos-loadgen: ## loadgen killed off its engine, interrupted and out of disk at 20 random instants each (minutes)
	STREAMGAUGE_CHAOS=1 go test -count=1 -timeout 20m ./internal/chaosloadgen

chaos: ## the proxy among dying clients and engines, in full: some minutes
	STREAMGAUGE_CHAOS=1 go test ./proxy -run 'Chaos|Giant' -count=1 -timeout 20m -v

bench-proxy: ## the proxy beside nginx, HAProxy and ReverseProxy, with bars (needs STREAMGAUGE_SHARED, root): some 20 minutes
	go run ./internal/benchproxy

behave: ## how the proxy behaves when clients and engines misbehave, row by row (needs STREAMGAUGE_SHARED)
	go run ./internal/benchproxy -behave

many: ## 4,000 and 10,000 streams at once through one proxy: every byte, descriptors and memory (some 3 minutes)
	go run ./internal/soak -many 4000,10000

soak: ## 128 streams with random faults for SOAKTIME (20m): every byte, flat memory
	go run ./internal/soak -for $(SOAKTIME)

vuln: export GOTOOLCHAIN = $(RELEASE_GO)
vuln: ## known vulnerabilities that a release can reach (govulncheck); exit code 1 also if no database can be had
	@[ -x $(GOVULNCHECK) ] || GOBIN=$(dir $(GOVULNCHECK)) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@.ci/vuln $(GOVULNCHECK) $(CACHE)

fuzz: ## every fuzz target for FUZZTIME (20s)
	@for p in $$(git grep -l 'func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho 'func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | awk '{print $$2}'); do \
	    echo "== $$p $$f"; go test ./$$p -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) || exit 1; done; done

demo: ## simulated engine, proxy and loadgen in one process: a small matrix in under a minute
	go run ./cmd/loadgen demo

browser: report/browser/node_modules ## the report's pages and the live page in Chromium: no request, no error, ink, keyboard, axe-core
	@dir=$$(mktemp -d) && go run ./cmd/loadgen demo --quiet --out $$dir/run >$$dir/matrix.txt && \
	  STREAMGAUGE_BROWSER=$$dir/run/run.ndjson go test ./report ./proxy -run 'TestBrowser|TestLiveBrowser' -count=1 -v; \
	  code=$$?; rm -rf $$dir; exit $$code

screenshots: report/browser/node_modules ## the README's pictures, of a run of the demo (Chromium)
	@dir=$$(mktemp -d) && mkdir -p docs/img && \
	  go run ./cmd/loadgen demo --quiet --out $$dir/run >$$dir/matrix.txt && \
	  node report/browser/shots.mjs $$dir/run/report.html docs/img; \
	  code=$$?; rm -rf $$dir; exit $$code

report/browser/node_modules: report/browser/package-lock.json
	@if command -v npm >/dev/null; then cd report/browser && npm ci --no-audit --no-fund; \
	  else echo 'no npm: the pages stay unchecked' >&2; fi

clean: ## remove what make build made
	rm -rf bin
