"""Verdicts on planted data: how often is the verdict on a claim right, and how often is a false claim confirmed?

    python benchmarks/claim_verdicts.py [--draws 200] [--runs 5]

Every draw simulates five models with several training runs each on 1,600 queries, and open-world values of ten models.
A study of all kinds of claims is judged, corrected over its ten claims. By construction the claims are true, false, or
undecidable: the models are one method under five names, whose training runs differ or do not. The table has the share
of draws with the right verdict, in percent, and that of a wrong "holds for the method".
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from kgprobe.studies.verdicts import Answer
from machine import describe
from planted_claims import SCENARIOS, verdicts_of

RIGHT = {
    "true": {Answer.method},
    "false": {Answer.contradicted},
    "undecidable": {Answer.undecided},
    # Runs that differ may really be ordered, which says nothing about the method.
    "undecidable, runs differ": {Answer.undecided, Answer.runs, Answer.contradicted_runs},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="simulated studies in each scenario")
    parser.add_argument("--runs", type=int, default=5, help="training runs of each model")
    given = parser.parse_args()
    draws = given.draws
    print(describe())
    print(f"| kind | {' | '.join(f'{name}: right' for name in SCENARIOS)} | wrongly confirmed |")
    print(f"| --- |{' ---: |' * (len(SCENARIOS) + 1)}")
    answers: dict[str, dict[str, Counter[Answer]]] = {}
    for scenario in SCENARIOS:
        for seed in range(draws):
            for verdict in verdicts_of(scenario, seed, runs=given.runs):
                answers.setdefault(verdict.claim.kind, {}).setdefault(scenario, Counter())[verdict.answer] += 1
    for kind, by_scenario in answers.items():
        right = [
            100 * sum(by_scenario[name][answer] for answer in RIGHT[name]) / by_scenario[name].total()
            for name in SCENARIOS
        ]
        wrong = max(100 * by_scenario[name][Answer.method] / draws for name in SCENARIOS if name != "true")
        print(f"| {kind} | {' | '.join(f'{share:.1f}' for share in right)} | {wrong:.1f} |", flush=True)


if __name__ == "__main__":
    main()
