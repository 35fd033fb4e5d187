from aib.system import progress


def test_without_a_terminal_there_is_a_line_now_and_then(capsys, monkeypatch):
    with progress.progress_bar(4) as tick:
        tick("quick", 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", -1)
    with progress.progress_bar(4) as tick:
        tick("measuring", 1)
        tick("measuring", 2)
    assert capsys.readouterr().err.splitlines() == ["measuring: 25%", "measuring: 75%"]
