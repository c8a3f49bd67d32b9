"""Tests of the package: pytest python/tests, with weir-fabric and its extra `test` installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest
import weir

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
SHORT = {"duration": "600us"}
INCAST = {
    "topology": {"kind": "star", "hosts": 3},
    "schemes": ["fncc", "dcqcn"],
    "workload": {"kind": "incast", "senders": 2, "size": "20KB"},
    "observe": {"ports": "all"},
    "duration": "200us",
}


def test_the_same_seed_gives_the_same_run():
    one, two = (weir.run(QUICKSTART, set=SHORT, seed=7, jobs=jobs) for jobs in (1, 2))
    assert one.digest == two.digest
    assert one.schemes == ["fncc", "hpcc"]
    turned = weir.run(QUICKSTART, set=SHORT | {"schemes": ["hpcc", "fncc"]})
    assert list(turned.to_dict()["schemes"]) == turned.schemes == ["hpcc", "fncc"]
    assert not one.partial
    assert weir.run(QUICKSTART, set={"duration": "601us"}).digest != one.digest


def test_tables_go_to_pandas_polars_and_pyarrow():
    run = weir.run(INCAST)
    flows = run.flows
    assert len(flows) == 4
    frames = [flows.to_pandas(), flows.to_polars().to_pandas(), pyarrow.table(flows).to_pandas()]
    for frame in frames:
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == flows.columns
        assert list(frame["size_bytes"]) == [20_000] * 4
        assert (frame["fct_us"] > frame["ideal_us"]).all()
    assert isinstance(flows.to_polars(), polars.DataFrame)
    queues = run.queues.to_pandas()
    peak = queues.groupby("scheme", observed=True)["queue_bytes"].max()
    assert peak.max() > 1_500


def test_completion_times_are_by_workload_and_class():
    run = weir.run(INCAST, set={"observe.size_classes": ["1KB"], "workload.name": "burst"})
    assert set(run.flows.to_pandas()["workload"]) == {"burst"}
    fct = run.fct.to_pandas()
    tail = fct[(fct["quantity"] == "slowdown") & (fct["statistic"] == "p99")]
    assert set(tail["workload"]) == {"burst"}
    assert set(tail["n"]) == {2}
    summary = run.to_dict()["schemes"]
    for scheme in run.schemes:
        of_class = tail[(tail["scheme"] == scheme) & (tail["over_bytes"] == 1000)]
        assert list(of_class["value"]) == [summary[scheme]["fct"]["classes"][1]["slowdown"]["p99"]]
        assert summary[scheme]["fct"]["workloads"]["burst"]["count"] == 2


def test_tables_agree_with_the_summary():
    run = weir.run(QUICKSTART, set=SHORT)
    schemes = run.to_dict()["schemes"]
    table = run.summary.to_pandas().set_index("scheme")
    for scheme in run.schemes:
        assert table.loc[scheme, "peak_queue_kb"] == schemes[scheme]["queues"]["s1:3"]["peak_bytes"] / 1e3
        assert table.loc[scheme, "jain_index"] == schemes[scheme]["jain"]


def test_errors_have_a_location(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(QUICKSTART.read_text() + "\nspeed: 3\n")
    with pytest.raises(weir.InputError, match="speed: unknown field") as raised:
        weir.run(file)
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.file, error.column) == (str(file), 1)
    assert file.read_text().splitlines()[error.line - 1] == "speed: 3"
    with pytest.raises(weir.InputError, match="^experiment: duration: ") as raised:
        weir.run(INCAST | {"duration": "1 parsec"})
    assert raised.value.line is None
    with pytest.raises(weir.InputError, match="cannot be read"):
        weir.run(tmp_path / "none.yaml")
    with pytest.raises(weir.InputError, match='did you mean "fncc"'):
        weir.run(QUICKSTART, schemes=["fnc"])
    with pytest.raises(weir.InputError, match="the list is empty"):
        weir.run(QUICKSTART, schemes=[])
    with pytest.raises(weir.InputError, match="the list is empty"):
        weir.sweep(QUICKSTART, {"seed": [1, 2]}, schemes=(), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    with pytest.raises(weir.InputError, match="summary.json"):
        weir.load(tmp_path)


def test_wrong_arguments_say_what_is_expected(tmp_path):
    for arguments, expected in [
        ({"seed": -1}, "^seed: expected a whole number, 0 or more, found -1$"),
        ({"seed": "x"}, "^seed: expected a whole number"),
        ({"seed": True}, "^seed: "),
        ({"jobs": 0}, "^jobs: expected a whole number, 1 or more, found 0$"),
        ({"set": "a=1"}, "^set: expected a dictionary such as .*, found 'a=1'$"),
        ({"set": {1: 2}}, "^set: expected the path of a key"),
        ({"set": {"duration": object()}}, "^set: duration: not a value of an experiment: <object object"),
        ({"schemes": 3}, "^schemes: expected labels"),
        ({"schemes": [3]}, "^schemes: expected labels"),
        ({"out": 3}, "^out: expected a path, found 3$"),
    ]:
        with pytest.raises(weir.InputError, match=expected):
            weir.run(INCAST, **arguments)
    with pytest.raises(weir.InputError, match="^weir.run: the argument {'seed': 3} has no name; .*set="):
        weir.run(INCAST, {"seed": 3})
    with pytest.raises(weir.InputError, match="^experiment: expected the path of a file, or a dictionary"):
        weir.run(3)
    for over in ("seed=1", {"seed": 1}, {"seed": "1..5"}):
        with pytest.raises(weir.InputError, match="^over: "):
            weir.sweep(INCAST, over, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    with pytest.warns(UserWarning, match="observe.interval: 1ms is longer than the run"):
        weir.run(INCAST, set={"observe.interval": "1ms", "duration": "20us"})


def test_out_writes_a_run_directory(tmp_path):
    out = tmp_path / "run"
    run = weir.run(INCAST, out=out)
    assert run.dir == out
    assert (out / "report.html").read_text() == run.report
    again = weir.load(out)
    assert again.digest == run.digest
    assert again.flows.to_pandas().equals(run.flows.to_pandas())
    assert run._repr_html_().startswith("<iframe srcdoc=")
    with pytest.raises(weir.InputError, match="not a result of a run"):
        (tmp_path / "thesis.tex").write_text("years of work")
        weir.run(INCAST, out=tmp_path)


def test_parquet_has_the_rows_of_csv(tmp_path):
    for kind in ("csv", "parquet"):
        observe = INCAST["observe"] | {"format": kind}
        run = weir.run(INCAST | {"observe": observe}, out=tmp_path / kind)
    for table in ("flows", "queues", "rates", "pauses"):
        text = pandas.read_csv(tmp_path / "csv" / f"{table}.csv")
        file = tmp_path / "parquet" / f"{table}.parquet"
        assert not (tmp_path / "parquet" / f"{table}.csv").exists()
        exact = pandas.read_parquet(file)
        rounded = exact.round({"slowdown": 4, "utilisation": 4})
        pandas.testing.assert_frame_equal(rounded, text, check_dtype=False, check_exact=True)
        assert polars.read_parquet(file).to_pandas().equals(exact)
        made = getattr(run, table)
        assert getattr(weir.load(tmp_path / "parquet"), table).to_pandas().equals(made.to_pandas())
        pandas.testing.assert_frame_equal(exact, made.to_pandas(), check_dtype=False, check_categorical=False)
    assert weir.load(tmp_path / "parquet").digest == weir.load(tmp_path / "csv").digest


def test_progress_may_interrupt_a_run_and_results_so_far_are_kept(tmp_path):
    calls = []

    def interrupt(scheme, done):
        calls.append((scheme, done))
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        weir.run(QUICKSTART, set={"duration": "200ms"}, out=out, progress=interrupt)
    assert len(calls) == 1 and calls[0][0] in ("fncc", "hpcc") and 0 <= calls[0][1] < 1
    assert not out.exists()
    assert weir.load(f"{out}.partial").partial


def test_a_sweep_has_means_and_complete_runs_are_not_repeated(tmp_path):
    over = {"topology.rate": ["50Gbps", "100Gbps"], "seed": range(1, 3)}
    sweep = weir.sweep(QUICKSTART, over, metrics=["peak queue"], set=SHORT, out=tmp_path / "s")
    table = sweep.table.to_pandas()
    assert len(table) == 4 and set(table["runs"]) == {2} and not sweep.failures
    means = table.set_index(["topology.rate", "scheme"])["mean"]
    runs = [weir.load(run) for run in sweep.runs]
    first = [run.summary.to_pandas().set_index("scheme").loc["fncc", "peak_queue_kb"] for run in runs[:2]]
    assert means["50Gbps", "fncc"] == pytest.approx(sum(first) / 2)
    fct = sweep.fct.to_pandas()
    assert len(fct) == 0, "flows without a size have no completion times"
    written = (sweep.runs[0] / "summary.json").stat().st_mtime_ns
    weir.sweep(QUICKSTART, over, metrics=["peak queue"], set=SHORT, out=tmp_path / "s")
    assert (sweep.runs[0] / "summary.json").stat().st_mtime_ns == written
    with pytest.raises(weir.InputError, match="peak quue"):
        weir.sweep(QUICKSTART, over, metrics=["peak quue"], out=tmp_path / "t")


@pytest.mark.skipif("WEIR" not in os.environ, reason="WEIR is not set to the path of the command")
def test_an_experiment_in_a_dictionary_is_swept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = weir.sweep(INCAST, {"seed": [1, 2]}, metrics=["peak queue"])
    assert not sweep.failures and sweep.dir == Path("runs/experiment-sweep")
    assert weir.load(sweep.runs[0]).digest == weir.run(INCAST, seed=1).digest
    named = weir.sweep(INCAST | {"name": "incast"}, {"seed": [1]}, out=tmp_path / "s")
    assert named.name == "incast"
    with pytest.raises(weir.InputError, match="^experiment: workload.loadx: unknown field `loadx`"):
        weir.sweep(INCAST, {"workload.loadx": [1, 2]})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["runs", "s"], "the temporary file is removed"


def test_the_completion_times_of_a_sweep_are_one_table(tmp_path):
    sizes = ["10KB", "20KB"]
    over = {"workload.size": sizes, "seed": [1, 2]}
    file = tmp_path / "incast.json"
    file.write_text(json.dumps(INCAST))
    sweep = weir.sweep(file, over, metrics=["peak queue"], out=tmp_path / "s")
    fct = sweep.fct.to_pandas()
    assert list(fct.columns[:3]) == ["workload.size", "seed", "scheme"]
    assert set(zip(fct["workload.size"], fct["seed"], strict=True)) == {(size, seed) for size in sizes for seed in (1, 2)}
    written = pandas.read_csv(tmp_path / "s" / "fct.csv")
    pandas.testing.assert_frame_equal(written, fct, check_dtype=False, check_categorical=False)
    one = weir.load(sweep.runs[0]).fct.to_pandas()
    part = fct[(fct["workload.size"] == "10KB") & (fct["seed"] == 1)].drop(columns=["workload.size", "seed"])
    pandas.testing.assert_frame_equal(part.reset_index(drop=True), one, check_categorical=False)
    exact = weir.sweep(file, over, set={"observe.format": "parquet"}, metrics=["peak queue"], out=tmp_path / "p")
    assert not (tmp_path / "p" / "fct.csv").exists()
    frame = pandas.read_parquet(tmp_path / "p" / "fct.parquet")
    pandas.testing.assert_frame_equal(frame, exact.fct.to_pandas(), check_dtype=False, check_categorical=False)


def test_ray_gives_the_tables_of_a_local_sweep(tmp_path, monkeypatch):
    stand_in = str(Path(__file__).parent / "stand_in")
    monkeypatch.syspath_prepend(stand_in)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([stand_in, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    over = {"seed": range(1, 4)}
    weir.sweep(QUICKSTART, over, set=SHORT, out=tmp_path / "local")
    arguments = [os.environ["WEIR"], "sweep", QUICKSTART, "--set", "duration=600us", "--engine", "ray"]
    subprocess.run([*arguments, "--over", "seed=1..3", "--out", tmp_path / "command"], check=True, capture_output=True)
    assert not weir.sweep(QUICKSTART, over, set=SHORT, out=tmp_path / "python", engine="ray").failures
    for table in ("sweep.csv", "runs.csv"):
        expected = (tmp_path / "local" / table).read_bytes()
        assert (tmp_path / "command" / table).read_bytes() == (tmp_path / "python" / table).read_bytes() == expected
    failed = weir.sweep(QUICKSTART, {"seed": [2, 13]}, set=SHORT, out=tmp_path / "python", engine="ray")
    assert failed.failures == ["seed=13: RayError: its node died"]
    result = subprocess.run([*arguments, "--over", "seed=13", "--out", tmp_path / "command"], capture_output=True, text=True)
    assert result.returncode == 1 and "seed=13: RayError: its node died" in result.stderr
    with pytest.raises(weir.InputError, match='neither "local" nor "ray"'):
        weir.sweep(QUICKSTART, over, out=tmp_path / "python", engine="slurm")


@pytest.mark.skipif("WEIR" not in os.environ, reason="WEIR is not set to the path of the command")
def test_a_sweep_writes_the_same_tables_as_the_command(tmp_path):
    weir.sweep(QUICKSTART, {"seed": [1, 2]}, set=SHORT, out=tmp_path / "python")
    arguments = ["--over", "seed=1,2", "--set", "duration=600us", "--out", tmp_path / "command"]
    subprocess.run([os.environ["WEIR"], "sweep", QUICKSTART, *arguments], check=True, capture_output=True)
    for table in ("sweep.csv", "runs.csv"):
        assert (tmp_path / "python" / table).read_bytes() == (tmp_path / "command" / table).read_bytes()
