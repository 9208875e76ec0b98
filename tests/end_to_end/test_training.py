"""Training from photos to weights: exact resume after a kill, several processes, clear errors, guarded checkpoints."""

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from allfocus.errors import InputError, OutputError, TrainingError
from allfocus.network.checkpoint import build_network, load_network, read_tensors
from allfocus.training import loop as training
from allfocus.training import stepping
from allfocus.training.batches import Batch
from allfocus.training.loop import train
from allfocus.training.photos import load_photos
from allfocus.training.recipe import Recipe, learning_rate, read_recipe
from allfocus.training.run_files import STATE_FILE, WEIGHTS_FILE
from allfocus.training.stepping import Stepper

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "ips": (
        "data.batch=5",
        "optimizer.average=0.9",
        "stack_network.channels=4",
        "stack_network.middle_channels=4",
        "stack_network.token_channels=4",
        "stack_network.mamba_blocks=1",
        "stack_network.veil_channels=4",
    ),
    "ips-paper": ("data.batch=2", "paper_network.source_channels=4", "paper_network.mamba_blocks=1"),
}
COMMON = (
    "data.licence_classes=[]",
    "data.held_out_every=3",
    "data.crop=32",
    "optimizer.iterations=4",
    "log.report_every=1",
    "log.checkpoint_every=2",
    "log.validate_every=2",
    "log.validation_samples=1",
)


def overrides(network: str, *more: str) -> list[str]:
    return [*COMMON, *SMALL[network], *more]


def small_recipe(network: str = "ips-paper", *more: str) -> Recipe:
    return read_recipe(ROOT / "recipes" / f"{network}.toml", overrides(network, *more))


# Sums depend on the number of threads, so bit for bit means with the same number.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Six pictures of coloured blocks; tests must not write into it."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for number in range(6):
        blocks = (random.random((24, 25, 3)) * 255).astype(np.uint8)
        Image.fromarray(blocks.repeat(8, axis=0).repeat(8, axis=1)).save(folder / f"photo_{number}.png")
    return folder


@pytest.fixture(scope="module")
def finished(photos, tmp_path_factory) -> dict[str, Path]:
    """One run of each network that nothing interrupted; tests must not write into them."""
    torch.set_num_threads(1)
    runs = tmp_path_factory.mktemp("runs")
    for network in SMALL:
        train(photos, runs / network, recipe=small_recipe(network), device="cpu")
    return {network: runs / network for network in SMALL}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same_state(one: Path, other: Path) -> None:
    """Weights, optimiser and average are equal to the last bit."""
    for name in (STATE_FILE, WEIGHTS_FILE):
        (found, header), (expected, wanted) = read_tensors(one / name), read_tensors(other / name)
        assert header.get("iteration") == wanted.get("iteration")
        assert found.keys() == expected.keys()
        different = [key for key in expected if not torch.equal(found[key], expected[key])]
        assert not different, f"{name}: {len(different)} of {len(expected)} tensors differ"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


# What a run leaves behind


@pytest.mark.parametrize("network", SMALL)
def test_a_run_leaves_weights_logs_previews_and_its_recipe(finished, network):
    run = finished[network]
    assert [row["iteration"] for row in rows(run / "log.csv")] == ["1", "2", "3", "4"]
    assert all(math.isfinite(float(row["loss"])) for row in rows(run / "log.csv"))
    kinds = {"pixel", "blob", "moved", "graded", "stack"} if network == "ips" else {"shuffled"}
    assert [row["iteration"] for row in rows(run / "validation.csv")] == ["2", "4"]
    assert set(rows(run / "validation.csv")[0]) == {"iteration", *kinds}
    assert sorted(path.name for path in (run / "previews").iterdir()) == ["00000002.png", "00000004.png"]
    # One row per kind; in it two sources, the fused picture and the target.
    with Image.open(run / "previews" / "00000004.png") as preview:
        assert preview.size == (4 * 32, len(kinds) * 32)
    assert json.loads((run / "recipe.json").read_text())["network"] == network
    assert not list(run.glob(".*")), "a partial file was left"


@pytest.mark.parametrize("network", SMALL)
def test_the_weights_carry_where_they_come_from(finished, network):
    loaded, header = load_network(finished[network] / WEIGHTS_FILE)
    provenance = header["provenance"]
    assert header["kind"] == network
    assert provenance["iteration"] == 4
    assert provenance["photos"] == 4
    assert provenance["recipe"]["seed"] == small_recipe(network).seed
    assert provenance["torch"] == torch.__version__
    found = loaded(torch.rand(1, 2, 3, 16, 16))
    assert all(part.isfinite().all() for part in (found if network == "ips" else [found]))


def test_the_shipped_average_is_not_the_last_step(finished):
    """`ips` keeps a running average: that is what is written as weights."""
    weights = read_tensors(finished["ips"] / WEIGHTS_FILE)[0]
    state = read_tensors(finished["ips"] / STATE_FILE)[0]
    assert torch.equal(weights["stem.weight"], state["average/stem.weight"])
    assert not torch.equal(weights["stem.weight"], state["weight/stem.weight"])


def test_the_random_state_of_the_caller_is_left_alone(photos, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(photos, tmp_path / "run", recipe=small_recipe("ips-paper", "optimizer.iterations=1"), device="cpu")
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_gives_other_weights(photos, finished, tmp_path):
    train(photos, tmp_path / "run", recipe=small_recipe("ips-paper", "seed=8"), device="cpu")
    one, other = (read_tensors(run / WEIGHTS_FILE)[0] for run in (tmp_path / "run", finished["ips-paper"]))
    assert not torch.equal(one["encoders.0.0.weight"], other["encoders.0.0.weight"])


def test_progress_counts_up_and_estimates_the_time_left(photos, tmp_path):
    reports = []
    train(photos, tmp_path / "run", recipe=small_recipe(), device="cpu", progress=reports.append)
    losses = [report for report in reports if not report.message]
    assert [report.iteration for report in losses] == [1, 2, 3, 4]
    assert {report.iterations for report in losses} == {4}
    assert all(report.images_per_second > 0 and math.isfinite(report.loss) for report in losses)
    assert losses[0].seconds_left > losses[2].seconds_left > losses[3].seconds_left == 0
    assert [report.iteration for report in reports if report.message.startswith("validation: shuffled ")] == [2, 4]


# Photos


def test_broken_photos_are_skipped_and_named_also_where_they_were_to_be_held_out(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    (folder / "photo_1_broken.png").write_text("no picture")  # sorted third: would be held out
    (folder / "photo_3.png").write_bytes(b"")
    reports = []
    recipe = small_recipe("ips-paper", "optimizer.iterations=1")
    train(folder, tmp_path / "run", recipe=recipe, device="cpu", progress=reports.append)
    assert reports[0].message.startswith("skipped ")
    for name in ("photo_1_broken.png: ", "photo_3.png: "):
        assert name in reports[0].message


def test_a_folder_without_photos_is_a_clear_error_and_makes_no_run(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="photos: no usable photo"):
        train(tmp_path / "photos", tmp_path / "run", recipe=small_recipe(), device="cpu")
    assert not (tmp_path / "run").exists()


def test_photos_too_small_for_the_crop_are_a_clear_error(photos, tmp_path):
    with pytest.raises(InputError, match="200x192 is smaller than 198 pixels"):
        train(photos, tmp_path / "run", recipe=small_recipe("ips-paper", "data.crop=144"), device="cpu")


def test_validation_sees_no_photo_that_is_trained_on(photos, tmp_path, monkeypatch):
    banks = {}

    def record_validation(network, bank, recipe):
        banks["held out"] = bank.names
        return {"shuffled": 1.0}

    class RecordingStepper(Stepper):
        def __init__(self, network, recipe, bank, **options):
            banks["trained on"] = bank.names
            super().__init__(network, recipe, bank, **options)

    monkeypatch.setattr(training, "validate", record_validation)
    monkeypatch.setattr(training, "Stepper", RecordingStepper)
    train(photos, tmp_path / "run", recipe=small_recipe("ips-paper", "optimizer.iterations=1"), device="cpu")
    assert banks["held out"] == ["photo_2.png", "photo_5.png"]
    assert banks["trained on"] == ["photo_0.png", "photo_1.png", "photo_3.png", "photo_4.png"]


def test_the_licence_filter_of_the_recipe_is_applied(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    classes = ["free", "research", "share-alike", "free", "research", "free"]
    lines = [f"photo_{number}.png,{licence}" for number, licence in enumerate(classes)]
    (folder / "SOURCES.csv").write_text("file,licence_class\n" + "\n".join(lines))
    more = ("data.licence_classes=['free', 'share-alike']", "data.held_out_every=0", "optimizer.iterations=1")
    weights = train(folder, tmp_path / "run", recipe=small_recipe("ips-paper", *more), device="cpu")
    assert load_network(weights)[1]["provenance"]["photos"] == 4


# Resuming

KILLED = """
import sys, time
from pathlib import Path
import torch
from allfocus.network import checkpoint
from allfocus.training.recipe import read_recipe
from allfocus.training.loop import train

torch.set_num_threads(1)
photos, run, recipe, moment = sys.argv[1:5]

def hang(where):
    print(where, flush=True)
    time.sleep(600)

def watch(report):
    if moment == "between checkpoints" and report.iteration == 3:
        hang(moment)

replace = checkpoint.os.replace

def watched_replace(source, target):
    if moment == "while writing" and target.name == "state.safetensors" and target.exists():
        hang(moment)
    replace(source, target)

checkpoint.os.replace = watched_replace
train(Path(photos), Path(run), recipe=read_recipe(Path(recipe), sys.argv[5:]), device="cpu", progress=watch)
"""


@pytest.mark.parametrize(
    ("network", "moment", "stored"), [("ips", "between checkpoints", 2), ("ips-paper", "while writing", 2)]
)
def test_a_run_killed_and_resumed_equals_one_that_was_not(photos, finished, tmp_path, network, moment, stored):
    run = tmp_path / "run"
    recipe = ROOT / "recipes" / f"{network}.toml"
    command = [sys.executable, "-c", KILLED, photos, run, recipe, moment, *overrides(network)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as child:
        reached = child.stdout.readline().strip()
        child.send_signal(signal.SIGKILL)
        complaint = child.stderr.read()
    assert reached == moment, complaint
    assert child.returncode == -signal.SIGKILL
    assert read_tensors(run / STATE_FILE)[1]["iteration"] == stored
    train(photos, run, recipe=small_recipe(network), device="cpu", resume=True)
    assert_same_state(run, finished[network])
    assert [row["iteration"] for row in rows(run / "log.csv")] == ["1", "2", "3", "4"]
    assert rows(run / "validation.csv") == rows(finished[network] / "validation.csv")


def test_stopping_at_a_time_writes_a_checkpoint_from_which_the_run_goes_on_exactly(photos, finished, tmp_path):
    for done in (1, 2, 3, 4):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="cpu", resume=done > 1, stop_after_seconds=0.0)
        assert read_tensors(tmp_path / "run" / STATE_FILE)[1]["iteration"] == done
    assert_same_state(tmp_path / "run", finished["ips-paper"])


def test_resuming_a_finished_run_changes_nothing(photos, finished, tmp_path):
    run = shutil.copytree(finished["ips-paper"], tmp_path / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert train(photos, run, recipe=small_recipe(), device="cpu", resume=True) == run / WEIGHTS_FILE
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_can_be_made_longer(photos, finished, tmp_path):
    run = shutil.copytree(finished["ips-paper"], tmp_path / "run")
    train(photos, run, recipe=small_recipe("ips-paper", "optimizer.iterations=5"), device="cpu", resume=True)
    assert read_tensors(run / STATE_FILE)[1]["iteration"] == 5
    assert [row["iteration"] for row in rows(run / "log.csv")][-2:] == ["4", "5"]


def test_a_run_can_start_from_the_weights_of_another(photos, finished, tmp_path):
    start = finished["ips"] / WEIGHTS_FILE
    recipe = small_recipe("ips", "optimizer.iterations=1", "optimizer.learning_rate=1e-9", "seed=5")
    weights = train(photos, tmp_path / "run", recipe=recipe, device="cpu", start=start)
    found, expected = read_tensors(weights)[0], read_tensors(start)[0]
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-7, msg=name)
    assert read_tensors(tmp_path / "run" / STATE_FILE)[1]["iteration"] == 1


def test_starting_from_a_network_of_other_sizes_is_refused(photos, finished, tmp_path):
    with pytest.raises(InputError, match="other sizes than the recipe"):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="cpu", start=finished["ips"] / WEIGHTS_FILE)
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_refused_without_resume_and_left_alone(photos, finished, tmp_path):
    run = shutil.copytree(finished["ips-paper"], tmp_path / "run")
    before = (run / STATE_FILE).read_bytes()
    with pytest.raises(InputError, match="holds a run already; pass resume=True"):
        train(photos, run, recipe=small_recipe(), device="cpu")
    assert (run / STATE_FILE).read_bytes() == before


def test_an_existing_run_is_refused_before_any_photo_is_read(finished, tmp_path):
    with pytest.raises(InputError, match="holds a run already"):
        train(tmp_path / "no photos", finished["ips-paper"], recipe=small_recipe(), device="cpu")


def test_resuming_nothing_names_the_missing_file(photos, tmp_path):
    with pytest.raises(InputError, match=STATE_FILE):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="cpu", resume=True)


def test_resuming_with_another_network_is_refused(photos, finished, tmp_path):
    run = shutil.copytree(finished["ips-paper"], tmp_path / "run")
    with pytest.raises(InputError, match="other sizes than the recipe"):
        train(photos, run, recipe=small_recipe("ips-paper", "paper_network.state=8"), device="cpu", resume=True)


def test_a_file_in_place_of_the_run_folder_is_named(photos, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(OutputError, match="run: cannot be made the folder of a run"):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="cpu")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["auto", None])
def test_without_a_gpu_training_chooses_the_processor(photos, tmp_path, device):
    recipe = small_recipe("ips-paper", "optimizer.iterations=1", "log.validate_every=0")
    weights = train(photos, tmp_path / "run", recipe=recipe, device=device)
    assert load_network(weights)[1]["provenance"]["device"] == "cpu"


def test_unknown_devices_are_refused(photos, tmp_path):
    with pytest.raises(InputError, match="cpu or cuda"):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_a_clear_error(photos, tmp_path):
    with pytest.raises(InputError, match="torch finds no GPU; use cpu"):
        train(photos, tmp_path / "run", recipe=small_recipe(), device="cuda")


# The guard against losses that are no numbers


def spoil(monkeypatch, iteration: int, how) -> None:
    """Lets `how` change the loss of the network at one iteration, counted from 1."""
    calls = 0
    original = stepping.network_loss

    def spoiled(network, batch, **options):
        nonlocal calls
        calls += 1
        loss = original(network, batch, **options)
        return how(loss, network) if calls == iteration else loss

    monkeypatch.setattr(stepping, "network_loss", spoiled)


def infinite_gradient(loss, network):
    """Adds nothing to the loss, but the slope of the square root at 0."""
    return loss + (next(network.parameters()) * 0).sum().sqrt()


@pytest.mark.parametrize(
    ("report_every", "how", "message"),
    [
        (1, lambda loss, network: loss * math.nan, "the loss is nan at iteration 3"),
        (1, lambda loss, network: loss * math.inf, "the loss is inf at iteration 3"),
        # Checkpoints are more frequent than reports: they must look for themselves.
        (100, lambda loss, network: loss * math.nan, "not finite after iteration 3"),
        # The loss is fine and only the weights are not.
        (1, infinite_gradient, "not finite after iteration 3"),
    ],
    ids=["nan", "infinite", "between reports", "gradient only"],
)
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint(
    photos, finished, tmp_path, monkeypatch, report_every, how, message
):
    more = (f"log.report_every={report_every}", "log.checkpoint_every=1", "log.validate_every=0")
    recipe = small_recipe("ips-paper", *more)
    with monkeypatch.context() as patch:
        spoil(patch, 3, how)
        with pytest.raises(TrainingError, match=message) as caught:
            train(photos, tmp_path / "run", recipe=recipe, device="cpu")
    assert "lower optimizer.learning_rate (0.0001)" in str(caught.value)
    tensors, header = read_tensors(tmp_path / "run" / STATE_FILE)
    assert header["iteration"] == 2
    assert all(bool(tensor.isfinite().all()) for tensor in tensors.values())
    # And from there the run can go on.
    train(photos, tmp_path / "run", recipe=recipe, device="cpu", resume=True)
    assert_same_state(tmp_path / "run", finished["ips-paper"])


# Several processes

TWO_PROCESSES = """
import os, sys
from pathlib import Path
import torch
from allfocus.network.checkpoint import save_tensors
from allfocus.training import loop as training
from allfocus.training.recipe import read_recipe

torch.set_num_threads(1)
photos, runs, recipe = map(Path, sys.argv[1:4])
rank = os.environ["RANK"]

class Recorder(training.Stepper):
    last = None
    def step(self, iteration):
        loss = super().step(iteration)
        Recorder.last = self
        if iteration == 0:
            save_tensors(runs / f"first_{rank}", self.state(), {})
        return loss

training.Stepper = Recorder
options = {"recipe": read_recipe(recipe, sys.argv[4:]), "device": "cpu"}
training.train(photos, runs / "whole", **options)
save_tensors(runs / f"last_{rank}", Recorder.last.state(), {})
# Only the second process runs out of time; the first must stop with it.
training.train(photos, runs / "stopped", stop_after_seconds=0.0 if rank == "1" else 1e6, **options)
"""


@pytest.fixture(scope="module")
def two_processes(photos, tmp_path_factory) -> Path:
    """The folder of runs that two processes made together."""
    runs = tmp_path_factory.mktemp("two_processes")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = runs / "script.py"
    script.write_text(TWO_PROCESSES)
    command = [*launcher, script, photos, runs, ROOT / "recipes" / "ips-paper.toml", *overrides("ips-paper")]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    ) as child:
        try:
            _, complaint = child.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            # Asked to end, the launcher ends its processes; killed, it would leave them behind.
            child.terminate()
            _, complaint = child.communicate()
    assert child.returncode == 0, complaint[-3000:]
    return runs


def test_two_processes_train_and_hold_the_same_weights(two_processes):
    assert [row["iteration"] for row in rows(two_processes / "whole" / "log.csv")] == ["1", "2", "3", "4"]
    mine, other = (read_tensors(two_processes / f"last_{rank}")[0] for rank in (0, 1))
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    stored = read_tensors(two_processes / "whole" / STATE_FILE)[0]
    assert all(torch.equal(mine[name], stored[name]) for name in stored)


def test_two_processes_average_the_gradients_of_both_halves(photos, two_processes):
    """One process that sees the samples of both has the same gradient: Adam's first moment after one step."""
    recipe = small_recipe()
    bank = load_photos(photos, smallest_side=32 + 54, part=(3, 2, False))
    halves = []

    class SampleRecorder(Stepper):
        def _update(self, batch: Batch, levels: int, with_context: int) -> torch.Tensor:
            halves.append(batch)
            return torch.zeros(())

    for rank in (0, 1):
        torch.manual_seed(recipe.seed)
        SampleRecorder(build_network(recipe.network_config), recipe, bank, rank=rank, world=1).step(0)
    assert not torch.equal(halves[0].frames, halves[1].frames)
    torch.manual_seed(recipe.seed)
    alone = Stepper(build_network(recipe.network_config), recipe, bank, rank=0, world=1)
    alone._set_learning_rate(learning_rate(recipe, 0))
    alone._update(Batch.join(halves), 1, 1)
    shared = read_tensors(two_processes / "first_0")[0]
    for name, moment in alone.state().items():
        if name.startswith("exp_avg/"):
            torch.testing.assert_close(shared[name], moment, rtol=1e-4, atol=1e-8, msg=name)


def test_two_processes_stop_together(two_processes):
    assert read_tensors(two_processes / "stopped" / STATE_FILE)[1]["iteration"] == 1


# The command


def test_the_command_trains_and_names_what_it_skipped(photos, tmp_path, run_command):
    folder = shutil.copytree(photos, tmp_path / "photos")
    (folder / "broken.jpg").write_text("no picture")
    settings = [argument for value in overrides("ips-paper") for argument in ("--set", value)]
    recipe = ROOT / "recipes" / "ips-paper.toml"
    done = run_command("train", folder, "--recipe", recipe, "-o", tmp_path / "run", "--device", "cpu", *settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "run" / WEIGHTS_FILE)
    assert "broken.jpg" in done.stderr
    assert "4/4" in done.stderr


def test_the_command_says_in_one_line_that_there_are_no_photos(tmp_path, run_command):
    (tmp_path / "photos").mkdir()
    recipe = ROOT / "recipes" / "ips.toml"
    done = run_command("train", tmp_path / "photos", "--recipe", recipe, "-o", tmp_path / "run")
    assert done.returncode == 2
    assert "no usable photo" in done.stderr
    assert "Traceback" not in done.stderr
