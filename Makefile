# The front door. CMake builds (CMakePresets.json), tests/run tests, tools/ has the rest.
#
#   PREFIX=/usr/local   where to install      LIBDIR=lib   libraries below it
#   DESTDIR=            staging folder        JOBS=        test cases at a time

PREFIX ?= /usr/local
export PREFIX LIBDIR DESTDIR JOBS

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all
.PHONY: all demo test test-full soak mutants coverage lint format bench install uninstall deb clean \
    help

all: ## build the library and the command into build/release
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

install: all ## install below $(DESTDIR)$(PREFIX)
	@cmake --install build/release
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

uninstall: all ## remove what `make install` has put there
	@tools/uninstall

deb: ## Debian packages, into build/deb
	@tools/install-packages deb
	@tools/deb

clean: ## remove everything that was built
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
