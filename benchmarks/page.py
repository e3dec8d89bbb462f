"""The page of 6 models on the 41,000 test queries of fb15k-237: how long it takes to write, and one slider step in it.

Ranks are made up: what is asked is how many there are. The step is measured in a real Chromium, from the slider's new
value to all scores, intervals and differences, beside a plain loop over the same number of ranks in the same browser.

Run: python benchmarks/page.py [--graph fb15k-237] [--models 6] [--steps 200]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import kgprobe as kp
from machine import describe

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

STEP = """
async ([alpha, beta]) => {
  for (const [name, value] of [["alpha", alpha], ["beta", beta]]) {
    const slider = document.getElementById(name);
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return performance.getEntriesByName("step").at(-1).duration;
}
"""

PLAIN_LOOP = """
([models, queries]) => {
  const random = (most) => Float64Array.from({ length: queries }, () => 1 + Math.floor(most * Math.random()));
  const [ranks, sizes] = [Array.from({ length: models }, () => random(10000)), random(14000)];
  const [entity, relation] = [random(1000).map((x) => x / 1e6), random(1000).map((x) => x / 1e3)];
  const times = [];
  for (let step = 0; step < 20; step += 1) {
    const [alpha, beta, start] = [0.31 + step / 50, 0.4, performance.now()];
    const scores = ranks.map((rank) => {
      let [sum, total] = [0, 0];
      for (let q = 0; q < queries; q += 1) {
        const loss = Math.expm1(-alpha * Math.log(rank[q])) / Math.expm1(-alpha * Math.log(1 + sizes[q]));
        const weight = (1e-6 + entity[q]) ** -beta * (1e-3 + relation[q]) ** -beta;
        sum += weight * (1 - loss);
        total += weight;
      }
      return sum / total;
    });
    times.push(performance.now() - start + 0 * scores.length);
  }
  return times.sort((a, b) => a - b)[10];
}
"""


def write_models(graph: kp.KnowledgeGraph, number: int, folder: Path) -> list[Path]:
    """Made-up ranks of all test queries, by models that agree in part."""
    rng = np.random.default_rng(0)
    head, relation, tail = np.repeat(graph.triples("test"), 2, axis=0).T
    tail_side = np.tile([False, True], len(head) // 2)
    candidates = graph.num_entities - graph.known_answers().others(head, relation, tail, tail_side)
    difficulty = rng.normal(size=len(head))
    for model in range(number):
        log_rank = 1.5 + 2.2 * (0.8 * difficulty + 0.6 * rng.normal(size=len(head))) + 0.1 * model
        kp.Ranks.from_columns(
            head=head,
            relation=relation,
            tail=tail,
            side=np.where(tail_side, "tail", "head"),
            rank=np.clip(np.floor(np.exp(np.maximum(log_rank, 0))), 1, candidates),
            candidates=candidates,
            info=kp.RanksInfo(model=f"model {model}", graph=graph.name, graph_hash=graph.content_hash),
        ).write(folder / f"model_{model}.parquet")
    return sorted(folder.glob("*.parquet"))


def written(files: list[Path], graph: str, page: Path) -> float:
    """Seconds of the whole command: start of Python, audit, comparison and all."""
    command = [sys.executable, "-m", "kgprobe", "report", *map(str, files), "-g", graph, "-o", str(page)]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def step_times(page: Path, steps: int, models: int, queries: int) -> tuple[float, list[float], float]:
    """Seconds until the page is ready, milliseconds of every slider step, and those of the plain loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page()
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector(".score")
        ready = time.perf_counter() - start
        points = [(round(-1 + 2 * i / steps, 2), round(0.8 * i / steps, 2)) for i in range(steps)]
        times = [float(tab.evaluate(STEP, point)) for point in points]
        plain = float(tab.evaluate(PLAIN_LOOP, [models, queries]))
        browser.close()
    return ready, times, plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    print(describe())
    graph = kp.load_graph(arguments.graph)
    queries = 2 * len(graph.triples("test"))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files, page = write_models(graph, arguments.models, folder), folder / "page.html"
        seconds = written(files, arguments.graph, page)
        print(f"report of {arguments.models} models x {queries:,} queries: written in {seconds:.1f} s, ", end="")
        print(f"{page.stat().st_size / 1e6:.1f} MB")
        ready, times, plain = step_times(page, arguments.steps, arguments.models, queries)
    typical, slow = statistics.median(times), float(np.quantile(times, 0.95))
    print(f"opened in chromium in {ready:.1f} s")
    print(f"one slider step: {typical:.1f} ms (95 % below {slow:.1f} ms), with intervals and differences")
    print(f"scores alone by a plain loop in the same browser: {plain:.1f} ms, {plain / typical:.1f} times as long")


if __name__ == "__main__":
    main()
