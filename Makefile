# Everything a contributor does, one target each; `make` lists them.

GO       ?= go
CC       := gcc
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 30s
# How many replays make test-long disturbs, and how many seconds it fuzzes.
HITS       ?= 1000
FUZZBUDGET ?= 3600
# Tests of a package that take longer than this hang.
TIMEOUT  ?= 30m
# The tests run these releases of Slurm beside the installed one. The directory has a link to each
# of them, except 22.05 if that release is installed.
SLURM_RELEASES := 22.05 24.11 26.05
SLURM_ROOTS    := $(CURDIR)/build/slurm
# OpenSearch and Kafka for the tests, which are made if Maven and a Java compiler are installed.
TEST_SERVERS   := $(CURDIR)/build/servers
# Packages that the tests need in addition to those of replays. The Containerfile names them, too.
TEST_PACKAGES  := chromium slurmd libjemalloc2 mariadb-client-core
# Where make install puts the program; DESTDIR goes before it, for packagers.
PREFIX   ?= /usr/local

# The packages of both modules of go.work.
PACKAGES := ./... ./tools/...

# gotestsum runs the tests, and prints the failures, the skipped tests with their reasons, and counts.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
# As many packages are tested at the same time. Many tests wait for daemons, so one more package than
# processors keeps all processors busy.
TEST_JOBS := $(shell echo $$(($$(nproc) + 1)))

SHIM_DIR  := internal/vclock/shim
SHIM      := $(SHIM_DIR)/lib/librmreplay.so
SHIM_SRC  := $(wildcard $(SHIM_DIR)/*.c)
SHIM_HDR  := $(wildcard $(SHIM_DIR)/*.h)
# -fexceptions: pthread_cleanup_push costs nothing until a thread is cancelled.
SHIM_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden -fexceptions -shared-libgcc \
	-ffile-prefix-map=$(CURDIR)=.
# Before glibc 2.34 these parts of glibc are separate libraries; later releases have empty libraries with
# the same names. Without them, a program might not find functions that the preload library calls.
SHIM_LIBS := -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -l:librt.so.1 -Wl,-z,now

DEMO := build/demo

# The version comes from git describe above. Go's own stamping would fail in a clone that belongs to
# another user, such as the checkout of a container.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

.DEFAULT_GOAL := help
# Packages must be installed before the build uses them.
.NOTPARALLEL:

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: deps build ## install what is missing, replay the example on real Slurm, print its metrics
	rm -rf $(DEMO)
	bin/rmreplay workload generate example --seed 1 -o $(DEMO)
	bin/rmreplay replay $(DEMO)/day.jsonl --cluster $(DEMO)/cluster -o $(DEMO)/run
	bin/rmreplay metrics $(DEMO)/run

.PHONY: twin
twin: deps build ## start a live Slurm on this machine, feed it, and serve its forecasts at http://127.0.0.1:8766
	@tools/install-deps slurmd
	$(GO) test -c -o build/twin.test ./internal/forecast/service
	cd internal/forecast/service && RMREPLAY_TWIN=on exec $(CURDIR)/build/twin.test -test.run '^TestTwin$$' -test.v -test.timeout 0

.PHONY: build
build: $(SHIM) ## build the programs in bin, and the preload library in them
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X rmreplay/internal/cli.version=$(VERSION)' -o bin/ ./cmd/rmreplay
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/rmreplay-engine

# The library is written under another name and renamed, so that a running replay keeps the older
# file that it has mapped.
$(SHIM): $(SHIM_SRC) $(SHIM_HDR) Makefile
	@mkdir -p $(@D)
	$(CC) $(SHIM_CFLAGS) $(SHIM_SRC) -o $@.new $(SHIM_LIBS)
	@mv -f $@.new $@

.PHONY: install
install: build ## install the program, its completions and manual pages below PREFIX (/usr/local)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin bin/rmreplay bin/rmreplay-engine
	@mkdir -p build/completions
	bin/rmreplay completion bash > build/completions/rmreplay
	bin/rmreplay completion zsh > build/completions/_rmreplay
	bin/rmreplay completion fish > build/completions/rmreplay.fish
	install -D -m 644 build/completions/rmreplay $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rmreplay
	install -D -m 644 build/completions/_rmreplay $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_rmreplay
	install -D -m 644 build/completions/rmreplay.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/rmreplay.fish
	@rm -rf build/man
	bin/rmreplay docs man build/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 build/man/man1/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/

.PHONY: dist
dist: $(SHIM) ## release artifacts in build/dist: tarball, deb, rpm, bills of materials, checksums
	@tools/dist

.PHONY: dist-check
dist-check: ## installs and runs those artifacts in roots of Debian 11, 12 and 13; needs root and debootstrap
	@tools/dist-check

# The second command of README.md on another release of Debian, in a minimal root without cgroups.
.PHONY: test-debian-12 test-debian-13
test-debian-12: ## make test in a new root of Debian 12; needs root and debootstrap
	@tools/debian-test bookworm build/debian-12 test

test-debian-13: ## make test in a new root of Debian 13; needs root and debootstrap
	@tools/debian-test trixie build/debian-13 test

.PHONY: deps
deps: ## install Slurm, MariaDB and the rest, where they are missing (Debian and Ubuntu)
	@tools/install-deps

# What tests need in addition to packages. Container images make them once. slurm-releases needs
# bin/rmreplay.
.PHONY: slurm-releases test-servers gotestsum
slurm-releases:
	@tools/slurm-releases $(SLURM_ROOTS) $(SLURM_RELEASES)

test-servers:
	@tools/test-servers $(TEST_SERVERS)

gotestsum:
	@$(GO) run $(GOTESTSUM) --version

.PHONY: test
test: deps build ## go vet and all tests, those on three releases of Slurm and in a browser too
	@tools/install-deps $(TEST_PACKAGES)
	@$(MAKE) --no-print-directory slurm-releases test-servers
	$(GO) vet $(PACKAGES)
	@RMREPLAY_SLURM_ROOTS=$(SLURM_ROOTS) RMREPLAY_TEST_SERVERS=$(TEST_SERVERS) $(GO) run $(GOTESTSUM) --format pkgname --format-hide-empty-pkg -- -p $(TEST_JOBS) -count 1 -timeout $(TIMEOUT) $(PACKAGES)

.PHONY: test-long
test-long: deps build ## hours: long forms of tests, HITS replays that are hit, fuzzing for FUZZBUDGET seconds; a summary
	@tools/install-deps $(TEST_PACKAGES)
	@$(MAKE) --no-print-directory slurm-releases test-servers
	@RMREPLAY_SLURM_ROOTS=$(SLURM_ROOTS) RMREPLAY_TEST_SERVERS=$(TEST_SERVERS) tools/test-long $(HITS) $(FUZZBUDGET)

# The tests that need neither root nor Slurm nor a browser: see CONTRIBUTING.md. For unchanged packages
# Go prints cached results.
.PHONY: check
check: $(SHIM) ## go vet and the fast tests, in three minutes at most; needs neither root nor Slurm
	$(GO) vet $(PACKAGES)
	@$(GO) run $(GOTESTSUM) --format pkgname --format-hide-empty-pkg --hide-summary skipped -- -short -timeout 5m $(PACKAGES)

.PHONY: lint
lint: $(SHIM) ## formatting, the linters of .golangci.yml, and stricter warnings for the preload library
	@tools/lint

.PHONY: bench
bench: deps $(SHIM) ## all benchmarks, in the form that benchstat reads
	$(GO) test -run '^$$' -bench . -benchmem -count 6 -timeout 60m $(PACKAGES)

.PHONY: fuzz
fuzz: $(SHIM) ## every fuzz test for FUZZTIME (30s)
	@tools/fuzz $(FUZZTIME)

.PHONY: golden
golden: $(SHIM) ## write the golden files anew; look at the difference before you keep it
	@tools/update-golden

.PHONY: docs
docs: build ## man pages in build/man, and the command reference in docs/commands, from the commands' help
	bin/rmreplay docs man build/man/man1
	bin/rmreplay docs markdown docs/commands

.PHONY: clean
clean: ## remove what make built
	rm -rf build bin $(SHIM) $(SHIM).new
