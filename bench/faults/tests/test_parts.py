"""The smaller parts: intervals, sentences of results, the target's log, recovery times, plans."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from .. import gaps
from ..facts import Fault, Seen, read_log
from ..nemesis import BLOWS, LOSSES_MAX, of_seed
from ..plans import everything, standard
from ..recovery import Recovery, recoveries, table
from ..target import delay_s
from .build import BEGAN, healthy, without


class Intervals(unittest.TestCase):
    def test_a_union_joins_what_touches(self) -> None:
        self.assertEqual(gaps.union([(3, 4), (0, 1), (1, 2), (3.5, 6)]), [(0, 2), (3, 6)])

    def test_what_is_removed_may_lie_inside_or_reach_beyond(self) -> None:
        self.assertEqual(gaps.without([(0, 10)], [(2, 3), (8, 20)]), [(0, 2), (3, 8)])
        self.assertEqual(gaps.without([(0, 10)], [(-1, float("inf"))]), [])

    def test_sentences_with_times_are_understood(self) -> None:
        sentences = {
            "worker x was lost: 50.0% of the load was missing from 5.1 s until 12.4 s (rebalance)": (5.1, 12.4),
            "worker x was lost: 50.0% of the load was missing from 5.1 s until the end (continue)": (5.1, 30.0),
            "counted stood still between 4.0 s and 9.5 s: no owner": (4.0, 9.5),
            "no load of rate from 7 s to 9 s": (7.0, 9.0),
        }
        for sentence, interval in sentences.items():
            document = {"elapsed_s": 30.0, "verdict": {"reasons": [sentence]}, "timeline": []}
            self.assertEqual(gaps.declared(document, 100.0), [(100 + interval[0], 100 + interval[1])], sentence)

    def test_an_event_with_a_length_ends_when_it_is_told(self) -> None:
        event = "1 of 2 shards of rate was missing for 4.0 s, and runs elsewhere now"
        document = {"elapsed_s": 30.0, "verdict": {"reasons": []}, "timeline": [{"at_s": 9.0, "event": event}]}
        self.assertEqual(gaps.declared(document, 0.0), [(5.0, 9.0)])

    def test_a_pause_is_no_gap(self) -> None:
        timeline = [{"at_s": 9.0, "event": "resumed after 4.0 s"}]
        self.assertEqual(gaps.declared({"verdict": {}, "timeline": timeline}, 0.0), [])


class Logs(unittest.TestCase):
    def test_a_log_is_read_by_tag_and_half_a_line_is_left_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "target.log"
            path.write_text("2.5 10.0.0.21 /j1/rate?it=7&vu=1&vi=0&row=9\n1.0 10.0.0.22 /j1/setup?ms=0\n"
                            "3.0 10.0.0.21 /j2/rate?it=1\n4.0 stall 0.750\n5.0 10.0.0.21 /j1/ra")
            requests, stalls = read_log(path, "j1", {"10.0.0.21": "w1"})
        self.assertEqual(requests, [Seen(1.0, "10.0.0.22", "setup"), Seen(2.5, "w1", "rate", 7, "9")])
        self.assertEqual(stalls, [(3.25, 4.0)])

    def test_a_delay_is_read_from_the_query(self) -> None:
        self.assertEqual([delay_s("/a"), delay_s("/a?ms=250"), delay_s("/a?it=1&ms=40&x=2"), delay_s("/a?ms=x")],
                         [0.0, 0.25, 0.04, 0.0])


class Recoveries(unittest.TestCase):
    def test_the_time_from_a_fault_to_the_planned_rate_is_measured(self) -> None:
        facts = without(healthy(), lambda s: s.what == "rate" and BEGAN + 5 <= s.at < BEGAN + 9)
        facts.faults = [Fault("worker killed", BEGAN + 4.9, BEGAN + 5.0, "")]
        [found] = recoveries(facts)
        self.assertAlmostEqual(found.seconds, 5.1, delta=0.2)

    def test_closed_models_are_compared_with_themselves_before_the_fault(self) -> None:
        facts = without(healthy(), lambda s: s.what == "users" and BEGAN + 5 <= s.at < BEGAN + 12)
        facts.faults = [Fault("worker frozen", BEGAN + 4.9, BEGAN + 12.0, "")]
        [found] = recoveries(facts)
        self.assertAlmostEqual(found.seconds, 7.9, delta=0.2)

    def test_a_load_that_does_not_come_back_is_said_to_be_away(self) -> None:
        facts = without(healthy(), lambda s: s.what == "rate" and s.at >= BEGAN + 5)
        facts.faults = [Fault("worker killed", BEGAN + 4.9, BEGAN + 5.0, "")]
        self.assertEqual([one.seconds for one in recoveries(facts)], [None])

    def test_a_fault_without_a_dip_takes_no_time(self) -> None:
        facts = healthy()
        facts.faults = [Fault("leader killed", BEGAN + 4.9, BEGAN + 5.0, "")]
        self.assertEqual([one.seconds for one in recoveries(facts)], [0.0])

    def test_the_table_has_a_line_for_each_kind(self) -> None:
        text = table([Recovery("a", 1.0), Recovery("a", None), Recovery("b", 0.0)])
        self.assertEqual(len(text.splitlines()), 3)


class Plans(unittest.TestCase):
    def test_a_plan_says_what_it_asks_for(self) -> None:
        self.assertEqual([one.planned for one in standard(20, with_users=True).workloads], [1200, 900, None])
        self.assertIn("unique-per-iteration", everything(60).text("http://x", "j1"))

    def test_a_seed_is_the_same_run_every_time(self) -> None:
        self.assertEqual([(one.workers, one.cores) for one in map(of_seed, range(20))],
                         [(one.workers, one.cores) for one in map(of_seed, range(20))])
        self.assertTrue(all(blow.losses <= LOSSES_MAX for blow in BLOWS))
