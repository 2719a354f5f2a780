"""Which test runs, or compares, each block of code of the pages. A block that is not here is run by nobody: `test_every_block.py`.

A row is what is said of a page: a text that one block alone has, or ``[language]`` for all others of a language, and what runs it. That
is a test, ``file::name``, or one of the `Excuse` below.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Excuse(Enum):
    """Why a block is run by no test; there are no others."""

    PICTURE = "it is a picture"
    SETUP = "it makes the checkout's own environment, which the tests are run in"
    MACHINE = "it has the figures of one machine; tests/examples/test_demo_run.py looks at what a demo prints"
    ROOT = "it needs root, and systemd"
    KUBERNETES = "it needs Kubernetes"
    KAFKA = "it is a program over Kafka, to be compared with ours"
    LIBRARY = "it needs a library that is not installed where the tests run"


SHELL: Final = "tests/docs/test_shell_blocks.py::"
SECURED: Final = "tests/docs/test_secured_blocks.py::"
PYTHON: Final = "tests/docs/test_python_blocks.py::"
SPARK: Final = "tests/spark_bridge/test_documented_programs.py::"
CLIENTS: Final = "tests/docs/test_client_pages.py::test_a_program_prints_what_the_page_shows"
START: Final = "tests/docs/test_start.py::test_the_page_prints_what_it_shows"
TOUR: Final = "tests/docs/test_tour.py::test_on_a_terminal_of_80_columns_it_prints_what_it_shows"
DEMAND: Final = "tests/streams/test_docs_demand.py::test_a_program_prints_what_the_guide_says"
OPERATORS: Final = "tests/streams/test_docs_operators.py::test_a_program_prints_what_it_says"
ARROW: Final = "tests/transport/test_arrow_documented.py::test_a_program_prints_what_the_page_shows"
TRACING: Final = "tests/transport/test_tracing_documented.py::test_the_program_prints_what_the_page_shows"
COMMANDS: Final = "tests/transport/test_commands_documented.py::test_every_command_that_is_named_is_one_that_there_is"
README: Final = SHELL + "test_the_readmes_shell_sends_and_receives_and_durabilitys_reads_what_is_left"
BACKUP: Final = SHELL + "test_a_backup_is_made_restored_and_opened_as_the_page_shows"
CHECK: Final = SHELL + "test_a_check_beside_a_broker_says_what_the_page_shows"
CONSUMER: Final = SHELL + "test_the_consumers_shell_prints_what_the_page_shows"
SMQ: Final = SHELL + "test_a_broker_with_the_ports_of_the_simple_queue_says_what_the_page_shows"
BAD_INPUT: Final = SHELL + "test_the_command_lines_page_shows_what_a_bad_line_and_an_unknown_option_bring"
AMQP: Final = "tests/docs/test_amqp.py::test_the_program_prints_what_the_page_shows"
AMQP_EXAMPLES: Final = "tests/examples/test_amqp_programs.py::"
TASKS: Final = "tests/examples/test_task_programs.py::"
DEFINITIONS: Final = "tests/docs/test_amqp.py::test_definitions_are_taken_over_as_the_page_shows"
LOG: Final = SECURED + "test_the_log_says_who_did_what_and_what_was_read_again_and_what_was_not"
HTTP: Final = "tests/docs/test_http.py::test_the_lines_of_curl_print_what_the_page_shows"
CLUSTER: Final = (
    "tests/docs/test_cluster.py::test_three_brokers_start_are_shown_and_outlive_one_of_them_as_the_page_says"
)
STARTS: Final = "tests/docs/test_cluster.py::test_the_start_with_users_and_tls_takes_the_options_that_it_shows"
TRIED: Final = "tests/docs/test_cluster_tried.py::test_what_is_typed_on_one_machine_loses_nothing_though_two_nodes_of_three_are_lost"
MEMBERS: Final = (
    "tests/docs/test_cluster_members.py::test_a_node_is_added_and_removed_and_another_one_moves_as_the_page_says"
)
CHANGES: Final = (
    "tests/docs/test_cluster.py::test_each_command_that_changes_members_is_one_with_the_words_that_it_takes"
)
DOUBT: Final = "tests/transport/node/test_doubt.py::test_two_that_are_left_go_on_by_command_though_one_is_in_doubt"
METRICS: Final = "tests/docs/test_metrics.py::"
WEBSOCKET: Final = "tests/docs/test_websocket.py::test_the_program_prints_what_the_page_shows"
REACHED: Final = SECURED + "test_a_broker_that_others_reach_starts_with_users_and_tls_and_logs_json"
ASKED: Final = SECURED + "test_a_user_sends_with_a_password_that_is_asked_for"
LAKE: Final = SPARK + "test_what_the_page_reads_into_a_lake_it_writes_into_queues"
QUERY: Final = SPARK + "test_the_readmes_query_reads_the_queue_and_the_listener_of_the_page_on_kafka_hears_of_it"

TABLE: Final[dict[str, dict[str, str | Excuse]]] = {
    "ARCHITECTURE.md": {"streams/       contracts": PYTHON + "test_the_codemap_names_folders_that_there_are"},
    "README.md": {
        "make demo": Excuse.SETUP,
        "equal: all 200 packages": Excuse.MACHINE,
        "elements -->": Excuse.PICTURE,
        "async with Broker": PYTHON + "test_the_program_of_the_readme_prints_what_it_says",
        "seq 3 | penstock send": README,
        "spark.readStream": QUERY,
    },
    "docs/access.md": {
        "[python]": SECURED + "test_the_programs_of_access_do_what_they_say",
        "penstock context add": SECURED + "test_a_context_says_where_the_broker_is_and_who_one_is",
        "penstock stats: no connection": SECURED
        + "test_a_client_that_a_broker_cuts_off_without_a_word_is_told_what_may_be_the_matter",
    },
    "docs/administration.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/amqp.md": {
        "penstock broker --amqp": AMQP,
        "import pika": AMQP,
        "b'tea' text/plain": AMQP,
        "python examples/amqp_pika.py": AMQP_EXAMPLES + "test_a_program_prints_what_the_page_shows",
        "python examples/amqp_aio_pika.py": AMQP_EXAMPLES + "test_a_program_prints_what_the_page_shows",
        "python examples/amqp_spark.py": AMQP_EXAMPLES + "test_a_query_sums_what_pika_has_published",
        '{\n  "rabbit_version"': DEFINITIONS,
        "$ penstock definitions import": DEFINITIONS,
    },
    "docs/arrow.md": {
        "polars_frame": Excuse.LIBRARY,
        "duckdb.sql": Excuse.LIBRARY,
        "import pyarrow.parquet as pq": "tests/transport/test_arrow_documented.py::"
        "test_a_file_is_written_before_its_messages_are_acknowledged",
        "table = pa.table": ARROW,
        "pd.DataFrame": ARROW,
        "ArrowDelivery": ARROW,
        "[text]": ARROW,
    },
    "docs/backups.md": {"penstock broker --data restored-data\n": BACKUP, "read again and whole": BACKUP},
    "docs/celery.md": {
        "penstock broker --amqp": TASKS + "test_the_broker_of_a_page_speaks_amqp_where_clients_look_for_it",
        "celery --workdir": TASKS + "test_a_program_of_celery_prints_what_the_page_shows",
        "python examples/amqp_celery.py": TASKS + "test_a_program_of_celery_prints_what_the_page_shows",
        "task_default_queue_type": TASKS
        + "test_the_settings_of_the_page_are_those_that_tests_have_tasks_wait_in_the_broker_by",
    },
    "docs/cli.md": {
        "[synopsis]": COMMANDS,
        "[console]": "tests/transport/test_shown_documented.py::test_what_the_page_shows_is_what_is_printed",
        "$ printf": BAD_INPUT,
        "no such option --quue": BAD_INPUT,
        "by pressure\nqueue": "tests/transport/cli_processes/test_top.py::test_the_page_shows_what_a_terminal_shows",
        "waiting for receivers": SHELL + "test_a_send_to_a_full_queue_says_what_the_page_shows",
        "await administration.create_queue": PYTHON + "test_the_program_of_the_command_lines_page_prints_the_queue",
    },
    "docs/coming-from-kafka.md": {
        'format("kafka")': Excuse.KAFKA,
        'format("penstock")': "tests/spark_bridge/test_coming_from_kafka.py::"
        "test_the_program_of_after_reads_what_was_sent_once",
        "QueueListener(print)": QUERY,
    },
    "docs/coming-from.md": {
        "with_a_stream": "tests/streams/test_docs_coming_from.py::test_the_program_of_the_page_prints_what_it_says"
    },
    "docs/configuration.md": {
        "[broker]": "tests/transport/test_settings_documented.py::test_the_examples_of_the_reference_can_be_in_force",
        "penstock config show": SHELL
        + "test_a_broker_takes_the_pages_settings_file_and_config_show_says_where_each_value_is_from",
        "penstock user add alice": REACHED,
    },
    "docs/cluster.md": {
        "openssl rand": CLUSTER,
        "--cluster-secret-file": CLUSTER,
        "$ penstock cluster status": CLUSTER,
        "--users-file users.toml": STARTS,
        "kill -9": CLUSTER,
    },
    "docs/cluster-members.md": {"give-up": CHANGES, "[]": MEMBERS, "[text]": MEMBERS},
    "docs/cluster-try.md": {"[]": TRIED},
    "docs/cluster-loss.md": {"penstock cluster move b": CHANGES, "export ETCDCTL_API": DOUBT},
    "docs/cluster-lost.md": {"[]": TRIED, "[text]": TRIED},
    "docs/cluster-damage.md": {"penstock cluster heal b": CHANGES, "[text]": DOUBT},
    "docs/cluster-wire.md": {
        "[python]": "tests/docs/test_cluster_wire.py::"
        "test_the_program_makes_the_proofs_seeds_and_frames_that_go_over_a_link",
        "| crc ": Excuse.PICTURE,
    },
    "docs/consumer.md": {
        "async def handle(order": "tests/examples/test_consumer_program.py::test_the_program_of_the_guide_is_the_example",
        "processes=4": "tests/examples/test_consumer_program.py::test_the_program_with_processes_counts_words",
        "penstock queue create orders": CONSUMER,
        "2 x tea": CONSUMER,
        "batch_handler": "tests/examples/test_consumer_program.py::test_the_program_with_batches_stores_what_was_sent",
        "raise DeadLetterError": "tests/examples/test_consumer_program.py::"
        "test_the_program_that_gives_up_an_order_at_once_keeps_the_reason",
        "readinessProbe": Excuse.KUBERNETES,
    },
    "docs/delivery.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/demand.md": {"request(n), cancel()": Excuse.PICTURE, "[python]": DEMAND, "[]": DEMAND},
    "docs/dramatiq.md": {
        "penstock broker --amqp": TASKS + "test_the_broker_of_a_page_speaks_amqp_where_clients_look_for_it",
        "dramatiq --path": TASKS + "test_a_program_of_dramatiq_and_its_worker_print_what_the_page_shows",
        "python examples/amqp_dramatiq.py": TASKS
        + "test_a_program_of_dramatiq_and_its_worker_print_what_the_page_shows",
        "remember order 2": TASKS + "test_a_program_of_dramatiq_and_its_worker_print_what_the_page_shows",
    },
    "docs/durability.md": {"penstock journal verify": README},
    "docs/failures.md": {
        "[python]": "tests/streams/test_failures_guide.py::test_a_program_of_the_guide_prints_what_it_says",
        "ValueError: invalid literal": PYTHON + "test_a_failure_says_what_the_page_shows",
        "the stage map has held up": PYTHON + "test_a_stage_that_blocks_is_told_of_as_the_page_shows",
    },
    "docs/graphs.md": {
        "GraphBuilder(": "tests/streams/test_graphs_guide.py::test_the_first_example_prints_what_it_says",
        "class Sieve": "tests/streams/test_graphs_guide.py::test_the_junction_of_ones_own_works",
    },
    "docs/groups.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/http.md": {
        "[console]": HTTP,
        '"title": "not-found"': HTTP,
    },
    "docs/ledger.md": {"ledger of subscription": Excuse.PICTURE, "[python]": CLIENTS, "[text]": CLIENTS},
    "docs/metrics.md": {
        "curl -s http": METRICS + "test_a_broker_answers_the_curl_and_the_token_of_the_page",
        "scrape_configs:": METRICS + "test_prometheus_is_pointed_at_routes_that_there_are",
        "penstock user add prometheus": METRICS + "test_a_broker_answers_the_curl_and_the_token_of_the_page",
        "alert: PenstockDown": "tests/transport/test_dashboard.py::"
        "test_every_alert_of_the_page_can_be_evaluated_and_none_is_raised_by_a_broker_that_is_well",
    },
    "docs/operations.md": {
        "--check --data ./penstock-data": CHECK,
        "is in use by another broker": CHECK,
        "read again: users, certificates, log level": LOG,
        "users: not read again": LOG,
        '"who": "alice"': REACHED,
        "refused: bob may not write orders": LOG,
        "this is no segment": "tests/transport/test_check.py::"
        "test_a_file_of_another_version_is_told_with_both_versions",
    },
    "docs/operators/*.md": {"[python]": OPERATORS},
    "docs/protocol.md": {
        "0        4       6": Excuse.PICTURE,
        "SCRAM-SHA-256": "tests/transport/security/test_scram.py::test_the_exchange_of_rfc_7677_is_word_for_word_ours",
        "[python]": WEBSOCKET,
        "[text]": WEBSOCKET,
    },
    "docs/queue.md": {"READY": Excuse.PICTURE, "[python]": CLIENTS, "[text]": CLIENTS},
    "docs/reactivex.md": {
        "[python]": "tests/streams/rx/test_docs.py::test_the_programs_in_the_documentation_run_and_print_what_they_say"
    },
    "docs/deduplication.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/receiver.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/schedules.md": {
        "[python]": CLIENTS,
        "[text]": CLIENTS,
        "[console]": "tests/docs/test_schedules.py::test_the_shell_prints_what_the_page_shows",
    },
    "docs/security.md": {
        "penstock user grant ann": ASKED,
        "ANNS_PASSWORD": SECURED + "test_the_program_sends_as_the_user",
        "password of ann": ASKED,
        "openssl req": ASKED,
        "openssl x509": SECURED + "test_a_certificate_stands_for_a_user",
        "penstock user token": SECURED + "test_a_token_is_made_into_a_file",
    },
    "docs/exchanges.md": {
        'option("exchange"': "tests/spark_bridge/test_exchange_queries.py::"
        "test_the_queries_of_the_page_have_a_queue_each",
        "[python]": CLIENTS,
        "[text]": CLIENTS,
        "[]": Excuse.PICTURE,
        "[console]": "tests/docs/test_exchanges.py::test_the_shell_prints_what_the_page_shows",
    },
    "docs/delayed-exchanges.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/delays.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/sender.md": {"[python]": CLIENTS, "[text]": CLIENTS},
    "docs/service.md": {
        "useradd --system": Excuse.ROOT,
        "runuser -u penstock": Excuse.ROOT,
        "PENSTOCK_SEND_ADDRESS=": SECURED + "test_the_environment_of_the_service_is_settings_that_can_be_in_force",
    },
    "docs/smq.md": {"penstock broker --smq-source": SMQ, "is cut off": SMQ},
    "docs/spark-exactly-once.md": {
        "python examples/spark_exactly_once.py": "tests/examples/test_spark_programs.py::"
        "test_orders_are_counted_exactly_once_though_the_query_is_killed",
        "[python]": PYTHON + "test_the_pieces_of_the_exactly_once_page_are_in_its_example",
    },
    "docs/spark.md": {"[python]": LAKE},
    "docs/tour.md": {"[console]": TOUR},
    "docs/start.md": {
        "make setup": Excuse.SETUP,
        "[console]": START,
        "async def cook": "tests/docs/test_start.py::test_the_program_on_the_page_is_the_example",
    },
    "docs/streams.md": {
        "total = await": "tests/streams/test_docs_overview.py::"
        "test_the_first_program_counts_the_groups_that_were_stored",
        "[python]": "tests/streams/test_docs_overview.py::test_a_program_of_the_overview_prints_what_it_says",
    },
    "docs/testing.md": {
        "penstock_durable_broker.kill": "tests/transport/testing/test_testing_documented.py::"
        "test_the_examples_run_and_who_uses_no_broker_loads_none",
        "make_consumer": "tests/transport/testing/test_testing_documented.py::test_the_example_of_a_consumer_runs",
    },
    "docs/tracing.md": {
        "from opentelemetry import trace": TRACING,
        "[text]": TRACING,
        "import Tracing, receive": "tests/transport/test_tracing_documented.py::test_a_script_processes_in_a_span",
    },
    "docs/verification.md": {
        "class TestCountdown": "tests/streams/verification/test_documentation.py::test_the_pages_example_passes"
    },
}
