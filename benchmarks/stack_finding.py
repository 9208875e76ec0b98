"""How well stacks are found by themselves: 100 mixed folders of a rendered shoot, grouped and compared with the truth.

    python benchmarks/stack_finding.py [--folders 100] [--seed 0] [FOLDER]

Prints the folders that were grouped as they were shot, and every one that was not.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rendered_shoot import Folder, Pool, shoot

from allfocus.batch.stacks import find_stacks


def compare(folder: Path, truth: Folder) -> list[str]:
    """What was found otherwise than it was shot; empty when all is right."""
    left_out: dict[str, str] = {}
    stacks = find_stacks(folder, by="auto", on_left_out=lambda path, reason: left_out.update({path.name: reason}))
    found = {tuple(path.name for path in stack.frames) for stack in stacks}
    wanted = {tuple(stack) for stack in truth.stacks}
    faults = [f"not found: {stack[0]} ... {stack[-1]}" for stack in sorted(wanted - found)]
    faults += [f"no stack: {', '.join(stack)}" for stack in sorted(found - wanted)]
    faults += [f"left out: {name} ({left_out[name]})" for name in sorted(set(left_out) - truth.left_out)]
    return faults + [f"not left out: {name}" for name in sorted(truth.left_out - set(left_out))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        pool = Pool.render(20)
        truths = [
            shoot(Path(place, f"day{number:03}"), pool, arguments.seed + number) for number in range(arguments.folders)
        ]
        right, began = 0, time.perf_counter()
        for number, truth in enumerate(truths):
            faults = compare(Path(place, f"day{number:03}"), truth)
            right += not faults
            for fault in faults:
                print(f"day{number:03}: {fault}")
        seconds = time.perf_counter() - began
    pictures = sum(len(stack) for truth in truths for stack in truth.stacks) + sum(len(t.left_out) for t in truths)
    stacks = sum(len(truth.stacks) for truth in truths)
    print(f"{right} of {len(truths)} folders right ({stacks} stacks, {pictures} pictures), {seconds:.0f} s")


if __name__ == "__main__":
    main()
