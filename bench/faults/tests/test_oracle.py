"""The oracle says nothing about a healthy job, and the right thing about each kind of damage."""

from __future__ import annotations

import unittest
from dataclasses import replace

from .. import loadcheck, oracle, schedule
from ..facts import Facts, Fault, Seen, Steering
from ..oracle import judge
from .build import BEGAN, LENGTH_S, ZERO, degraded, healthy, more, without


def checks(facts: Facts) -> list[str]:
    return [f"{one.promise} {one.check}" for one in judge(facts)]


def between(what: str, first: float, last: float):
    return lambda seen: seen.what == what and BEGAN + first <= seen.at < BEGAN + last


class NothingTwice(unittest.TestCase):
    def test_a_healthy_job_breaks_no_promise(self) -> None:
        self.assertEqual(judge(healthy()), [])

    def test_an_iteration_that_is_seen_twice_is_found(self) -> None:
        facts = more(healthy(), Seen(BEGAN + 5.0, "w1", "rate", 10))
        self.assertIn("P1 twice", checks(facts))

    def test_a_unique_row_that_is_seen_twice_is_found_though_its_iterations_differ(self) -> None:
        facts = healthy()
        facts.requests = [replace(s, row="7") if s.what == "unique" and s.iteration == 9 else s for s in facts.requests]
        self.assertEqual(checks(facts), ["P1 twice"])

    def test_users_may_repeat_an_iteration_because_a_new_attempt_counts_anew(self) -> None:
        self.assertNotIn("P1 twice", checks(more(healthy(), Seen(BEGAN + 5.0, "w3", "users", 10))))

    def test_two_sources_of_one_shard_at_a_time_are_found(self) -> None:
        extra = [Seen(BEGAN + 8.0 + 0.05 * i, "w4", "users", 5000 + i) for i in range(40)]
        self.assertIn("P1 two sources", checks(more(healthy(), *extra)))

    def test_a_request_that_was_already_under_way_is_no_second_source(self) -> None:
        facts = more(healthy(), Seen(BEGAN + 8.0, "w4", "users", 5000))
        self.assertNotIn("P1 two sources", checks(facts))

    def test_a_shard_that_moves_and_comes_back_has_one_source_at_a_time(self) -> None:
        facts = healthy()
        facts.requests = [replace(s, source="w4") if s.what == "users" and 5 <= s.at - BEGAN < 9 else s
                          for s in facts.requests]
        self.assertEqual(judge(facts), [])

    def test_shards_of_one_workload_have_different_sources(self) -> None:
        facts = healthy()
        facts.summary["workflows"]["rate"]["cores"] = 2
        facts.requests = [replace(s, source=f"w{s.iteration % 2 + 1}") if s.what == "rate" else s
                          for s in facts.requests]
        self.assertEqual(judge(facts), [])


class Counts(unittest.TestCase):
    def test_iterations_that_are_neither_run_nor_dropped_are_found(self) -> None:
        for what in ("rate", "counted"):
            facts = healthy()
            facts.summary["workflows"][what]["iterations"] -= 10
            self.assertEqual(checks(facts), ["R27 run + dropped"], what)

    def test_iterations_that_are_counted_twice_are_found(self) -> None:
        facts = healthy()
        facts.summary["workflows"]["counted"]["dropped"] = {"worker_lost": 186}
        self.assertIn("R27 run + dropped", checks(facts))

    def test_the_rest_of_a_counted_workload_is_not_dropped_as_time_over(self) -> None:
        facts = without(healthy(), between("counted", 17.0, 18.0), cause="time_over")
        self.assertIn("R27 time_over", checks(facts))

    def test_more_answers_than_the_target_saw_are_found(self) -> None:
        facts = healthy()
        facts.summary["requests"]["count"] += 5
        self.assertEqual(checks(facts), ["P5 completed > seen"])

    def test_more_seen_than_issued_is_found(self) -> None:
        facts = healthy()
        facts.summary["requests"].update(issued=len(facts.requests) - 1, issued_is="bound")
        self.assertEqual(checks(facts), ["P5 seen > issued"])

    def test_a_bound_above_what_was_seen_is_fine(self) -> None:
        facts = healthy()
        facts.summary["requests"].update(issued=len(facts.requests) + 300, issued_is="bound")
        self.assertEqual(judge(facts), [])

    def test_an_unknown_number_is_not_given(self) -> None:
        facts = healthy()
        facts.summary["requests"].update(issued=None, issued_is="unknown")
        self.assertEqual(judge(facts), [])
        facts.summary["requests"]["issued"] = 5
        self.assertEqual(checks(facts), ["P5 issued_is"])

    def test_an_exact_number_without_a_fault_is_what_was_seen(self) -> None:
        facts = healthy()
        facts.summary["requests"]["issued"] += 1
        self.assertEqual(checks(facts), ["P5 issued"])
        facts.faults = [Fault("worker killed", BEGAN + 1, BEGAN + 2, "")]
        self.assertEqual(judge(facts), [])

    def corrected(self, facts: Facts, issued: int | None, exactness: str, completed: int) -> None:
        added = {"issued": 3, "sent": 3, "completed": 3, "failed": 0, "iterations": 3}
        facts.summary["addenda"] = [{"at": "2026-11-17T20:00:00.000Z", "worker": "w1", "workflow": "rate", "shard": 0,
                                     "attempt": 1, "added": added, "certain": True}]
        facts.summary["corrected"] = {"requests": {"issued": issued, "issued_is": exactness, "sent": completed,
                                                   "completed": completed}}

    def test_addenda_are_held_to_what_the_target_saw(self) -> None:
        seen = len(healthy().requests)
        for issued, exactness, completed, found in (
                (seen, "exact", seen, []), (seen + 9, "bound", seen, []), (None, "unknown", seen, []),
                (seen - 1, "exact", seen - 1, ["P5 seen > corrected issued"]),
                (seen + 9, "exact", seen + 1, ["P5 corrected completed > seen"])):
            facts = healthy()
            self.corrected(facts, issued, exactness, completed)
            self.assertEqual(checks(facts), found, (issued, exactness, completed))

    def test_an_attempt_has_one_addendum(self) -> None:
        facts = healthy()
        self.corrected(facts, len(facts.requests), "exact", len(facts.requests))
        facts.summary["addenda"] *= 2
        self.assertEqual(checks(facts), ["P5 addenda"])

    def test_a_worker_that_comes_back_changes_nothing_but_what_is_added(self) -> None:
        early, late = healthy().summary, healthy().summary
        for one in (early, late):
            one.update(iterations=5, dropped={})
            one["requests"].update(issued=None, issued_is="unknown")
        self.assertEqual(list(oracle.unchanged(early, late)), [])
        self.assertEqual([one.check for one in oracle.heard_again(early, late)], ["not corrected"])
        late["corrected"] = {"requests": {"issued": 7, "issued_is": "exact", "sent": 7, "completed": 7}}
        self.assertEqual(list(oracle.heard_again(early, late)), [])
        late["exit_code"], late["requests"]["count"] = 99, 1
        self.assertEqual([one.check for one in oracle.unchanged(early, late)], ["exit_code changed", "result changed"])

    def test_a_summary_without_issued_is_found(self) -> None:
        facts = healthy()
        del facts.summary["requests"]["issued"]
        self.assertEqual(checks(facts), ["P5 no issued"])


class Holes(unittest.TestCase):
    def lost(self, what: str = "rate") -> Facts:
        facts = without(healthy(), between(what, 5.0, 9.0))
        return facts

    def test_a_hole_under_a_valid_verdict_is_found(self) -> None:
        for what in ("rate", "counted", "users"):
            self.assertIn("R27 hole", checks(self.lost(what)), what)

    def test_a_hole_that_the_verdict_tells_is_fine(self) -> None:
        reason = "worker w1 was lost: 100.0% of the load was missing from 5.0 s until 9.1 s (rebalance)"
        self.assertEqual(judge(degraded(self.lost(), reason)), [])

    def test_a_hole_that_the_timeline_tells_is_fine(self) -> None:
        event = (9.2, "1 of 1 shards of rate was missing for 4.1 s, and runs elsewhere now")
        self.assertEqual(judge(degraded(self.lost(), "planned load not generated", timeline=(event,))), [])

    def test_a_hole_that_is_told_with_wrong_times_is_found(self) -> None:
        reason = "worker w1 was lost: 100.0% of the load was missing from 12.0 s until 15.0 s (rebalance)"
        self.assertEqual(checks(degraded(self.lost(), reason)), ["R27 hole"])

    def test_a_hole_that_is_told_in_half_is_found(self) -> None:
        facts = degraded(without(healthy(), between("users", 4.0, 14.0), cause=None), "missing from 4.0 s until 7.0 s")
        self.assertIn("R27 hole", checks(facts))

    def delayed(self, from_s: float, by_s: float) -> Facts:
        """What was due in a stretch came all at once at its end."""
        facts = healthy()
        stood = between("rate", from_s, from_s + by_s)
        moved = [replace(s, at=BEGAN + from_s + by_s) if stood(s) else s for s in facts.requests]
        return replace(facts, requests=sorted(moved, key=lambda s: s.at))

    def test_arrivals_that_are_late_by_less_than_a_second_are_no_hole(self) -> None:
        self.assertEqual(judge(self.delayed(5.3, 0.7)), [])
        self.assertEqual(judge(self.delayed(5.45, 0.8)), [])

    def test_late_arrivals_are_no_hole_though_the_rate_was_halved_behind_them(self) -> None:
        facts = self.delayed(5.3, 0.8)
        halved = [s for s in facts.requests if not (between("rate", 6.6, 99.0)(s) and s.iteration % 2 == 1)]
        facts = replace(facts, requests=halved)
        rate = facts.plan.workload("rate").per_second
        facts.steering = [Steering("scale", BEGAN + 6.4, BEGAN + 6.6, True, workload="rate", per_second=rate / 2)]
        self.assertEqual(loadcheck.holes(facts).get("rate", []), [])

    def test_arrivals_that_are_late_by_more_than_a_second_are_a_hole(self) -> None:
        self.assertIn("R27 hole", checks(self.delayed(5.0, 1.3)))

    def test_half_of_the_arrivals_missing_is_a_hole_without_any_pause(self) -> None:
        facts = without(healthy(), lambda s: between("rate", 5.0, 9.0)(s) and s.iteration % 3 != 0)
        self.assertIn("R27 hole", checks(facts))

    def test_a_hole_of_one_of_two_shards_is_found(self) -> None:
        facts = healthy()
        facts.summary["workflows"]["rate"]["cores"] = 2
        facts = without(facts, lambda s: between("rate", 5.0, 9.0)(s) and s.iteration % 2 == 1)
        self.assertIn("R27 hole", checks(facts))

    def test_a_shard_whose_rest_was_dropped_with_its_worker_is_done_earlier(self) -> None:
        """Two shards; the second lost some of its 450 iterations with a worker, and is done before the first."""
        for first_lost, found in ((700, False), (100, True)):
            facts = healthy()
            facts.summary["workflows"]["counted"]["cores"] = 2
            facts = without(facts, lambda s: s.what == "counted" and s.iteration % 2 == 1 and s.iteration >= first_lost)
            lost = (3.1, "worker w2 refuses connections, with 1 of 2 shards of counted (on_worker_loss: rebalance)")
            facts = degraded(facts, "missing from 3.0 s until 3.1 s", timeline=(lost,))
            self.assertEqual("R27 hole" in checks(facts), found, first_lost)

    def test_a_shard_whose_last_request_was_interrupted_before_it_was_sent_is_done_all_the_same(self) -> None:
        """A lapse interrupts an iteration whose request was not written: it counts, and the target never sees it."""
        for interrupted, found in ((1, False), (0, True)):
            facts = healthy()
            facts.summary["workflows"]["counted"].update(cores=2, iterations_interrupted=interrupted)
            gone = lambda s: s.what == "counted" and s.iteration in (701, 703)  # noqa: E731
            facts = without(facts, lambda s: gone(s) and s.iteration == 701, cause=None)
            facts = replace(facts, requests=[s for s in facts.requests if not between("counted", 18.0, 20.0)(s)
                                             or s.iteration % 2 == 0])
            lost = (3.1, "worker w2 gave up 1 of 2 shards of counted: its lease ran out")
            facts = degraded(facts, "missing from 3.0 s until 3.1 s", timeline=(lost,))
            self.assertTrue("R27 hole" in checks(facts) or not found, interrupted)

    def test_a_rate_whose_last_arrival_came_a_little_early_has_no_hole_at_its_end(self) -> None:
        """The clock of a takeover may be ahead by half a round trip. A rate that stops without its last is a hole."""
        early = replace(healthy(), requests=[replace(s, at=s.at - 0.9) if between("rate", 10.0, 30.0)(s) else s
                                             for s in healthy().requests])
        self.assertNotIn("R27 hole", checks(early))
        cut = without(healthy(), between("rate", LENGTH_S - 1.0, LENGTH_S + 1.0))
        self.assertIn("R27 hole", checks(cut))

    def test_users_who_stop_before_the_end_are_a_hole(self) -> None:
        self.assertIn("R27 hole", checks(without(healthy(), between("users", 12.0, 20.0), cause=None)))

    def test_a_hole_in_which_the_machine_stood_still_is_nobodys_fault(self) -> None:
        facts = self.lost()
        facts.stalls = [(BEGAN + 4.9, BEGAN + 9.0)]
        self.assertEqual(judge(facts), [])

    def test_a_hole_in_which_the_target_was_cut_off_is_the_campaigns_own(self) -> None:
        facts = self.lost()
        facts.target_cuts = [(BEGAN + 5.0, BEGAN + 8.0)]
        self.assertEqual(judge(facts), [])

    def test_a_stall_in_a_handover_breaks_a_promise_even_if_it_is_told(self) -> None:
        facts = degraded(self.lost(), "missing from 5.0 s until 9.0 s")
        facts.stalls_forbidden = True
        self.assertEqual(checks(facts), ["R28 stall"])


class Steered(unittest.TestCase):
    def paused(self) -> Facts:
        """Paused from 5 to 9: what is due later comes 4 s later."""
        facts = healthy()
        facts.requests = [replace(s, at=s.at + 4.0) if s.at >= BEGAN + 5.0 else s for s in facts.requests]
        facts.summary["elapsed_s"] += 4.0
        for part in facts.summary["workflows"].values():
            part["ended_s"] += 4.0
        facts.ended += 4.0
        facts.steering = [Steering("pause", BEGAN + 4.95, BEGAN + 5.0, True),
                          Steering("resume", BEGAN + 8.95, BEGAN + 9.0, True)]
        return facts

    def test_a_pause_is_no_hole(self) -> None:
        self.assertEqual(judge(self.paused()), [])

    def test_load_that_does_not_come_back_after_a_resume_is_found(self) -> None:
        facts = without(self.paused(), lambda s: s.what == "users" and s.at > BEGAN + 6, cause=None)
        self.assertIn("R27 hole", checks(facts))

    def cancelled(self) -> Facts:
        facts = healthy()
        kept = [s for s in facts.requests if s.at < BEGAN + 10.0 and s.what != "teardown"]
        for one in facts.plan.workloads:
            run = sum(1 for s in kept if s.what == one.name)
            facts.summary["workflows"][one.name].update(iterations=run, ended_s=10.1)
        facts.summary["workflows"]["counted"]["dropped"] = {
            "time_over": 900 - sum(1 for s in kept if s.what == "counted")}
        kept.append(Seen(BEGAN + 10.2, "w1", "teardown"))
        facts.summary["requests"].update(count=len(kept), issued=len(kept))
        facts.summary.update(outcome="CANCELLED", exit_code=103, elapsed_s=10.3)
        return replace(facts, requests=kept, exit_code=103, ended=BEGAN + 10.5,
                       steering=[Steering("cancel", BEGAN + 9.9, BEGAN + 10.0, True)])

    def test_a_cancel_with_its_outcome_and_teardown_is_fine(self) -> None:
        self.assertEqual(judge(self.cancelled()), [])

    def test_a_cancelled_job_that_says_completed_is_found(self) -> None:
        facts = self.cancelled()
        facts.summary.update(outcome="COMPLETED", exit_code=0)
        facts.exit_code = 0
        self.assertEqual(checks(facts), ["R5 outcome"])

    def test_a_cancel_without_teardown_is_found(self) -> None:
        facts = self.cancelled()
        facts.requests = [s for s in facts.requests if s.what != "teardown"]
        self.assertIn("R28 teardown", checks(facts))

    def test_a_cancelled_counted_workload_says_what_it_did_not_do(self) -> None:
        facts = self.cancelled()
        facts.summary["workflows"]["counted"]["dropped"] = {}
        self.assertEqual(checks(facts), ["R27 run + dropped"])

    def test_a_rate_that_was_scaled_has_more_planned(self) -> None:
        facts = healthy()
        facts.steering = [Steering("scale", BEGAN + 9.9, BEGAN + 10.0, True, workload="rate", per_second=120)]
        extra = [Seen(BEGAN + 10.0 + i / 60, "w1", "rate", 1200 + i) for i in range(600)]
        self.assertIn("R27 run + dropped", checks(facts))
        facts = more(facts, *extra)
        facts.summary["workflows"]["rate"]["iterations"] += 600
        self.assertEqual(judge(facts), [])


    def test_a_new_rate_that_holds_from_the_beginning_is_found(self) -> None:
        facts = healthy()
        facts.steering = [Steering("scale", BEGAN + 9.9, BEGAN + 10.0, True, workload="rate", per_second=120)]
        extra = [Seen(BEGAN + 10.0 + i / 120, "w1", "rate", 1200 + i) for i in range(1200)]
        facts = more(facts, *extra)
        facts.summary["workflows"]["rate"]["iterations"] += 1200
        self.assertIn("R27 run + dropped", checks(facts))

    def test_a_rate_that_was_scaled_twice_has_what_lies_between_the_changes(self) -> None:
        facts = healthy()
        facts.steering = [Steering("scale", BEGAN + 5.0, BEGAN + 5.2, True, workload="rate", per_second=120),
                          Steering("scale", BEGAN + 10.0, BEGAN + 11.0, True, workload="rate", per_second=30)]
        rate = next(one for one in facts.plan.workloads if one.name == "rate")
        found = schedule.planned(facts, rate, BEGAN)
        # The most: the first at once, the second as late as it can be. The fewest: the other way round.
        self.assertAlmostEqual(found.most, 60 * 5 + 120 * 6.3 + 30 * 8.7 + 4)
        self.assertAlmostEqual(found.least, 60 * 5.5 + 120 * 4.5 + 30 * 10 - 4)


class Ends(unittest.TestCase):
    def test_a_job_that_does_not_end_is_found(self) -> None:
        facts = replace(healthy(), summary=None, exit_code=None, ended=None, given_up=ZERO + 100)
        self.assertIn("P7 hang", checks(facts))

    def test_a_timeout_is_never_expected(self) -> None:
        facts = healthy()
        facts.summary.update(outcome="TIMEOUT", exit_code=102)
        facts.exit_code = 102
        self.assertEqual(checks(facts), ["P7 outcome"])

    def test_a_code_that_differs_from_its_document_is_found(self) -> None:
        self.assertEqual(checks(replace(healthy(), exit_code=99)), ["R5 exit code"])

    def test_time_that_was_left_out_is_found(self) -> None:
        facts = healthy()
        facts.summary["elapsed_s"] = LENGTH_S - 5.0
        self.assertEqual(checks(facts), ["R27 elapsed"])
        facts.summary["elapsed_s"] = LENGTH_S + 5.0
        self.assertEqual(checks(facts), ["R27 elapsed"])

    def test_setup_that_ran_twice_is_marked(self) -> None:
        facts = more(healthy(), Seen(ZERO + 0.05, "w2", "setup"))
        self.assertEqual(checks(facts), ["P5 setup repeated"])
        facts.summary["timeline"] = [{"at_s": 0.05, "event": "setup runs again: worker w1 was lost"}]
        self.assertEqual(judge(facts), [])

    def test_load_before_setup_or_after_teardown_is_found(self) -> None:
        facts = healthy()
        facts.requests = [s for s in facts.requests if s.what != "setup"]
        self.assertIn("P7 setup", checks(facts))
        late = Seen(BEGAN + LENGTH_S + 2.0, "w3", "users", 9999)
        facts = replace(more(healthy(), late), ended=ZERO + LENGTH_S + 3)
        self.assertIn("P1 teardown", checks(facts))

    def test_panics_and_unrest_are_found(self) -> None:
        facts = replace(healthy(), alarms=["m1: thread panicked"], settled="cores are still taken: w1")
        self.assertEqual(checks(facts), ["P10 alarm", "P7 not settled"])


if __name__ == "__main__":
    unittest.main()
