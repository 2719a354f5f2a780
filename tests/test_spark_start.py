"""What makes Spark start faster in tests leaves no part of Spark out but the archive, and gives the JVM no archive that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import spark_start

pytest.importorskip("pyspark")


def test_the_folder_has_all_that_pyspark_has_installed_but_its_archive(tmp_path: Path) -> None:
    import pyspark

    installed = Path(str(pyspark.__file__)).parent
    home = spark_start.fill(tmp_path / "home")
    assert {part.name for part in home.iterdir()} == {part.name for part in installed.iterdir()} - {"python"}
    assert (home / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")
    assert spark_start.fill(home) == home, "a second time"


def test_only_an_archive_that_is_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_start, "HOME", tmp_path)
    assert spark_start.jvm_options() == spark_start.BRIEF_JVM
    spark_start.classes().touch()
    assert str(spark_start.classes()) in spark_start.jvm_options()
    assert spark_start.jvm_options().startswith(f"{spark_start.BRIEF_JVM} {spark_start.QUIET}")


def test_where_everything_is_there_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_start, "HOME", tmp_path)
    monkeypatch.setattr(spark_start, "run_queries", lambda: pytest.fail("a session was started"))
    spark_start.classes().touch()
    spark_start.main()
    assert (tmp_path / "jars").is_dir()
