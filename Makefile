# The front door. CMake builds (CMakePresets.json), tests/run tests, tools/ has the rest.
#
#   PREFIX=/usr/local   where to install      LIBDIR=lib   libraries below it
#   DESTDIR=            staging folder        JOBS=        test cases at a time

PREFIX ?= /usr/local
export PREFIX LIBDIR DESTDIR JOBS

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all
.PHONY: all demo test test-full soak mutants coverage lint format bench bench-peers interop \
    interop-brief install uninstall deb clean help

all: ## build everything, tests too, into build/release
	@tools/build release

demo: ## see it work; installs what it needs
	@tools/install-packages build
	@tools/demo

test: ## run the tests, in under ten minutes; installs what they need
	@tools/install-packages test
	@tests/run quick

test-full: ## run everything that `make test` leaves out
	@tools/install-packages full
	@tests/run full

soak: ## test for hours: SOAK_SECONDS=3600
	@tools/install-packages full
	@tests/run soak

mutants: ## show that the tests catch a broken core, engine or script
	@tools/install-packages test
	@tests/mutants/run

coverage: ## which lines the tests reach
	@tools/install-packages coverage
	@tests/run coverage

lint: ## formatting, static analysis, dependencies, style
	@tools/install-packages lint
	@tools/lint

format: ## format the C sources in place
	@tools/install-packages lint
	@tools/sources '*.c' '*.h' | xargs clang-format-14 -i

bench: ## measure, as ratios
	@tools/install-packages bench
	@tools/build release
	@tools/bench

interop: all ## share locks with clients of other libraries, as far as their languages are here
	@tools/install-packages test
	@tools/peers tests/interop

interop-brief: all ## the same in six minutes; who cannot be fetched by then is skipped
	@tools/install-packages test
	@BRIEF=1 tools/peers tests/interop

bench-peers: all ## measure beside clients of other libraries
	@tools/install-packages test
	@tools/peers bench/peers

install: ## install below $(DESTDIR)$(PREFIX)
	@tools/build release snib_installed
	@cmake --install build/release
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

uninstall: ## remove what `make install` has put there
	@tools/build release snib_installed
	@tools/uninstall

deb: ## Debian packages, into build/deb
	@tools/install-packages deb
	@tools/deb

clean: ## remove everything that was built
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
