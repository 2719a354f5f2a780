# Everything starts from a fresh clone: the first target that needs .venv makes it (scripts/setup).
# PYTHON names the interpreter to make it with; by default the first of python3, python3.13, python3.12, python3.11 that will do.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?=
INPUT ?=
BENCH ?= throughput single latency durable group_commit durable_latency redis backlog backpressure idle metrics fairness groups delays security arrow spark spark_latency \
	spark_write spark_backpressure streams operators smq websocket http exchanges exchange_backlog amqp amqp_spark celery cluster cluster_beside cluster_joining
TESTS ?=
LOCK ?=
SOAK ?= suite properties simulation replication machines spark_leader_kills power_loss features cluster_features features_damages damages damages_real turns turns_alter turns_queues attackers strangers kill_broker kill_exchanges kill_schedules kill_delayed kill_delays kill_move kill_smq kill_amqp kill_celery \
	amqp_fuzz amqp_unacknowledged amqp_held_back amqp_consumers amqp_differential exchange_limits strict_order many_clients \
	idle_senders signals backups kill_http takes api_fuzz spark_kills spark_exchange query_outage
export PYTHON INPUT TESTS
# Where compiled modules may not be kept, each of the thousand processes that tests start compiles all of ours again, for three times the
# time of their import. `make clean` removes them.
unexport PYTHONDONTWRITEBYTECODE

RUN := .venv/bin/python
# All tests are shared out among processes; tests/sharing.py says how. What is named runs in one.
SHARED := --numprocesses=auto --dist=loadscope --no-loadscope-reorder

.PHONY: help setup test lint types site pythons spark-start pytest test-pythons soak demo bench format lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup: ## make .venv with the locked packages
	@scripts/setup

# What is told soon comes first, side by side; each tells what it has to say as a whole. The tests of the event loop wait more than they
# compute, so that they run beside the others, and end long before.
test: setup ## set up, then lint, types and every test
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target lint types site spark-start
	@$(MAKE) --no-print-directory --jobs=2 --keep-going pythons pytest

lint: setup ## ruff's rules and formatting
	@echo "penstock: lint"
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m ruff format --quiet --check . || { echo "penstock: not formatted; run make format" >&2; exit 1; }

types: setup ## mypy --strict
	@echo "penstock: types"
	@$(RUN) -m mypy --no-error-summary
	@$(RUN) -m mypy --no-error-summary $(wildcard examples benchmarks scripts)

# --quiet would have it count no warnings. Its makers tell of their other generator on each run; the variable is theirs.
site: setup ## the documents as a site, in build/site
	@echo "penstock: site"
	@mkdir -p build
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict >build/site.log 2>&1 || { cat build/site.log >&2; exit 1; }

pythons: setup ## what depends on the event loop, on uvloop and on each Python here; short
	@echo "penstock: tests of the event loop on each Python"
	@scripts/test-pythons --short

spark-start: setup ## what makes Spark start faster in tests; once for a .venv
	@if java_home=$$(scripts/ensure-java); then \
		JAVA_HOME="$$java_home" $(RUN) -m tests.spark_start >.venv/spark-start.log 2>&1 || \
			echo "penstock: Spark starts slowly in tests, see .venv/spark-start.log" >&2; \
	fi

# The last to end in `make test`, so that pytest's summary is the last line. Without Java the tests that need Spark are skipped.
pytest: setup ## the tests alone; TESTS="tests/streams -k demand" for some of them
	@java_home=$$(scripts/ensure-java) && export JAVA_HOME="$$java_home" || echo "penstock: going on without Spark" >&2; \
	scripts/ensure-etcd >/dev/null || echo "penstock: going on without etcd" >&2; \
	echo "penstock: tests"; \
	$(RUN) -m pytest --quiet $(or $(TESTS),$(SHARED))

test-pythons: setup ## the whole suite on each Python here, 3.11 to 3.13; takes an hour
	@java_home=$$(scripts/ensure-java) && export JAVA_HOME="$$java_home" || echo "penstock: going on without Spark" >&2; \
	scripts/ensure-etcd >/dev/null || echo "penstock: going on without etcd" >&2; \
	scripts/test-pythons

soak: setup ## the long fault and simulation programs, one after another; SOAK=kill_broker for one of them
	@java_home=$$(scripts/ensure-java) && export JAVA_HOME="$$java_home"; \
	scripts/ensure-etcd >/dev/null || echo "penstock: going on without etcd" >&2; \
	scripts/soak $(SOAK)

demo: setup ## the whole system on real text; INPUT=path takes any file or folder
	@java_home=$$(scripts/ensure-java) || { echo "penstock: the demo runs a Spark query, and Spark needs Java" >&2; exit 2; }; \
	export JAVA_HOME="$$java_home"; \
	exec $(RUN) -m examples.demo $${INPUT:+"$$INPUT"}

bench: setup ## the benchmarks; BENCH=throughput for one of them
	@java_home=$$(scripts/ensure-java) && export JAVA_HOME="$$java_home"; \
	for bench in $(BENCH); do \
		if [ "$$bench" = redis ] && ! scripts/ensure-redis >/dev/null && [ "$(strip $(BENCH))" != redis ]; then \
			echo "penstock: going on without the benchmark redis" >&2; \
			continue; \
		fi; \
		case $$bench in amqp | celery | cluster_beside) scripts/ensure-rabbitmq >/dev/null || true;; esac; \
		case $$bench in cluster | cluster_beside | cluster_joining) scripts/ensure-etcd >/dev/null || true;; esac; \
		$(RUN) -m benchmarks "$$bench"; \
	done

format: setup ## let ruff mend what it can
	@$(RUN) -m ruff check --quiet --fix . || true
	@$(RUN) -m ruff format .

lock: setup ## resolve requirements.lock anew; LOCK=--upgrade for the newest versions
	@$(RUN) scripts/lock.py $(LOCK)
	@scripts/setup

clean: ## remove what the other targets made
	@rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist demo-output benchmark-output \
		spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
