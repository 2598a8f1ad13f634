use super::*;

fn some_job(number: u128, state: JobState, outcome: Outcome) -> proto::JobStatus {
    proto::JobStatus {
        job: ::fleet::wire::job_bytes(fence::JobId(number)),
        name: "shop\x1b[31m".to_owned(),
        state: state.into(),
        outcome: outcome.into(),
        age_ms: 65_000,
        ..proto::JobStatus::default()
    }
}

#[test]
fn ids_are_as_short_as_can_be_told_apart_and_names_cannot_paint_the_terminal() {
    let one = some_job(0x3f2a_0000_1111 << 80, JobState::Running, Outcome::Unspecified);
    let two = some_job(0x3f2a_0000_1112 << 80, JobState::Ended, Outcome::Completed);
    let list = proto::ListReply { jobs: vec![one.clone(), two], more: 7 };
    let text = jobs(&list, true);
    assert!(
        text.contains("3f2a0000-1111  running") && text.contains("3f2a0000-1112  completed"),
        "{text}"
    );
    assert!(!text.contains('\x1b') && text.contains("... and 7 more"), "{text}");
    let alone = jobs(&proto::ListReply { jobs: vec![one], more: 0 }, false);
    assert!(alone.contains("3f2a0000  running"), "{alone}");
}

/// A worker's state says what is thought of it, if it is not the usual.
#[test]
fn the_fleet_shows_whom_it_gives_nothing_new() {
    let worker = |routing: Routing, why: &str| proto::FleetNode {
        node: "aaaaaaaa-bbbb".to_owned(),
        role: NodeRole::Worker.into(),
        state: NodeState::Alive.into(),
        routing: routing.into(),
        why: why.to_owned(),
        ..proto::FleetNode::default()
    };
    let nodes = vec![
        worker(Routing::Route, ""),
        worker(Routing::Drain, "breaker open: no answer 3 times in 9 s\x1b"),
        worker(Routing::Investigate, "its memory is nearly used up"),
    ];
    let reply = proto::FleetReply { nodes, cores: 4, cores_free: 1 };
    let text = fleet(&reply, &proto::ListReply::default());
    assert!(text.contains("alive  "), "{text}");
    let open = "alive, nothing new (breaker open: no answer 3 times in 9 s";
    assert!(text.contains(open) && !text.contains('\x1b'), "{text}");
    assert!(text.contains("alive, last choice (its memory is nearly used up)"), "{text}");
    let json = fleet_json(&reply, &proto::ListReply::default());
    assert_eq!(
        (&json["nodes"][1]["routing"], &json["nodes"][0]["why"]),
        (&json!("drain"), &json!(""))
    );
}

/// A running job's numbers are its owner's; the ledger's are marked, because they stand still while
/// it runs.
#[test]
fn numbers_that_are_behind_are_marked() {
    let mut one = some_job(1 << 120, JobState::Running, Outcome::Unspecified);
    let counters = proto::Counters { completed: 70, ..proto::Counters::default() };
    one.counters = Some(counters);
    let list = |one: &proto::JobStatus| {
        jobs(&proto::ListReply { jobs: vec![one.clone()], more: 0 }, false)
    };
    assert!(
        list(&one).contains("70+") && list(&one).contains("owner was not reached"),
        "{}",
        list(&one)
    );
    assert!(job(&one).contains("its owner was not reached"), "{}", job(&one));
    assert_eq!(job_json(&one)["counters"]["live"], false);
    one.live = true;
    assert!(!list(&one).contains('+') && !job(&one).contains("not reached"), "{}", job(&one));
    assert_eq!(job_json(&one)["counters"]["live"], true);
    one.live = false;
    one.outcome = Outcome::Completed.into();
    one.state = JobState::Ended.into();
    assert!(!list(&one).contains('+'), "the end is the end: {}", list(&one));
}

#[test]
fn a_job_shows_who_came_back_and_who_has_not_been_heard() {
    let mut one = some_job(1 << 120, JobState::Ended, Outcome::Completed);
    assert!(!job(&one).contains("unheard") && !job(&one).contains("addendum"), "{}", job(&one));
    let added = proto::Counters { issued: 1_200, completed: 9, ..proto::Counters::default() };
    one.unheard = 1;
    one.addenda = vec![proto::Addendum {
        at_unix_ms: 1_794_945_600_000,
        worker: "aaaaaaaa-bbbb".to_owned(),
        shard: 3,
        attempt: 2,
        added: Some(added),
        sent: 10,
        certain: true,
        ..proto::Addendum::default()
    }];
    let text = job(&one);
    let line = "addendum   2026-11-17T20:00:00.000Z  worker aaaaaaaa, shard 0/3, attempt 2: 1,200 issued, 10 sent";
    assert!(text.contains(line) && text.contains("unheard    1 attempt"), "{text}");
    let json = whole_job_json(&one);
    assert_eq!((&json["unheard"], &json["addenda"][0]["added"]["sent"]), (&json!(1), &json!(10)));
}

#[test]
fn a_job_shows_where_its_shards_run_and_what_happened_last() {
    let mut one = some_job(1 << 120, JobState::Running, Outcome::Unspecified);
    let shard = |shard, attempt: u32, worker: &str| proto::ShardStatus {
        shard,
        attempt,
        state: proto::ShardState::Running.into(),
        worker: worker.to_owned(),
    };
    one.workflows = vec![proto::WorkflowStatus {
        name: "browse".to_owned(),
        state: proto::WorkflowState::Running.into(),
        need: "2 cores for 150 virtual users (100 a core)".to_owned(),
        shards: vec![shard(0, 1, "aaaaaaaa-bbbb"), shard(1, 2, "")],
        ..Default::default()
    }];
    one.timeline = (0..20)
        .map(|number| proto::Note { at_ms: number * 1000, text: format!("event {number}") })
        .collect();
    let text = job(&one);
    assert!(text.contains("browse    0      1        running  aaaaaaaa\n"), "{text}");
    assert!(text.contains("browse: 2 cores for 150 virtual users (100 a core)"), "{text}");
    assert!(text.contains("nobody yet") && text.contains("8 earlier events"), "{text}");
    assert!(text.contains("event 19") && !text.contains("event 7\n"), "{text}");
    assert_eq!(job_json(&one)["workflows"][0]["shards"][1]["attempt"], 2);
}
