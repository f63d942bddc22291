"""The page on Spark is true: its examples run, from top to bottom."""

import test_docs


def test_the_examples_of_the_page_run(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, names = test_docs.DOCS / "spark.md", {"__name__": "__main__", "spark": spark}
    found = list(test_docs.blocks(page.read_text(encoding="utf-8")))
    assert len(found) >= 3
    report = "".join(test_docs.failures(*block, page, names, tmp_path) for block in found)
    assert not report, report
