//! Watches that break, go on elsewhere, and end with the result.

use std::sync::Arc;
use std::time::Duration;

use fleet::client::{FleetClient, FleetError, JobWatch, WatchUpdate};
use stats::feed::{Feed, FeedLimits, Position, Shown, Tally, WindowEvent};
use stats::{RunResult, RunState};
use tonic::{Code, Status};

use crate::client::fake::{Fake, JOB, World};

fn window(number: u64, requests: u64) -> WindowEvent {
    WindowEvent {
        first: number,
        last: number,
        late: false,
        partial: false,
        coalesced: false,
        told: 1,
        live: 1,
        vus: 3,
        totals: Tally { requests, ..Tally::default() },
        latency: stats::Trend::new().to_sparse(),
    }
}

fn result_bytes() -> Vec<u8> {
    let layout = plan::read_str(
        "name: p\ntarget: http://x\nworkflows:\n  - name: main\n    load: { vus: 1, iterations: 1 }\n    steps: [ { get: / } ]\n",
        plan::Format::Yaml,
        std::path::Path::new("."),
        &plan::ReadOptions::new(&|_| None),
    );
    let layout = engine::attempt::layout_of(&layout.unwrap()).unwrap();
    let result = RunResult {
        issued: stats::Issued::Exact(0),
        last_words: stats::LastWords::default(),
        plan: "p".to_owned(),
        started_unix_ms: 0,
        elapsed: Duration::from_secs(2),
        outcome: stats::Outcome::Completed,
        verdict: stats::Verdict { state: stats::VerdictState::Valid, reasons: Vec::new() },
        stop: stats::StopReason::Finished,
        totals: stats::Window::new(&layout),
        history: stats::History::new(&layout, None),
        layout,
        workflows: Vec::new(),
        thresholds: Vec::new(),
        error_samples: Vec::new(),
        timeline: Vec::new(),
        generator: stats::GeneratorStats::default(),
        notes: Vec::new(),
        script: None,
        fail_on: stats::VerdictState::Invalid,
    };
    stats::wire::encode_result(&result).unwrap()
}

/// Everything that a watch brings: windows as (first, last, counted), the rest in words.
async fn all(mut watch: JobWatch) -> Result<Vec<String>, FleetError> {
    let mut seen = Vec::new();
    while let Some(told) = watch.next().await? {
        seen.push(match told {
            WatchUpdate::Shown(Shown::Window { window, counted }) => {
                format!("{}-{}: {}", window.first, window.last, counted.requests)
            }
            WatchUpdate::Shown(Shown::State { state, why }) => format!("{state:?} {why}"),
            WatchUpdate::Shown(Shown::Note(note)) => note.event,
            WatchUpdate::Shown(other) => format!("{other:?}"),
            WatchUpdate::Broken(_) => "broken".to_owned(),
            WatchUpdate::Final(result) => format!("final {}", result.plan),
        });
    }
    Ok(seen)
}

/// The owner dies; another one, with another division into windows, goes on at another manager.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_at_another_manager_without_repeats() {
    let (world, first, second) = (World::new(), Fake::default(), Fake::default());
    let mut old = Feed::new(1, FeedLimits::default());
    old.state(RunState::Running, "");
    old.note(Duration::ZERO, "started");
    (0..3).for_each(|number| old.window(window(number, 10 * (number + 1))));
    let mut script: Vec<_> =
        old.since(&Position::default(), false).into_iter().map(|event| Some(Ok(event))).collect();
    script.push(Some(Err(Status::unavailable("the owner is gone"))));
    first.part().watches = [script].into();
    first.part().submits = [].into();

    let mut new = Feed::new(2, FeedLimits::default());
    new.note(Duration::ZERO, "started");
    new.note(Duration::from_secs(1), "another owner");
    new.window(WindowEvent { first: 0, last: 4, coalesced: true, ..window(4, 55) });
    new.window(window(5, 60));
    new.finish(result_bytes());
    let position = Position { epoch: 1, seq: 5, window: 3 };
    let script = new.since(&position, false).into_iter().map(|event| Some(Ok(event)));
    second.part().watches = [script.collect()].into();

    let one = world.manager(1, &first).await;
    let two = world.manager(2, &second).await;
    let client = world.client(&[one.address(), two.address()]).await;
    let seen = all(client.watch(JOB, true)).await.unwrap();
    let wanted = [
        "Running ",
        "started",
        "0-0: 10",
        "1-1: 10",
        "2-2: 10",
        "broken",
        "another owner",
        "3-4: 25",
        "5-5: 5",
        "final p",
    ];
    assert_eq!(seen, wanted);
    assert_eq!(first.part().positions, [(0, 0, 0)]);
    assert_eq!(second.part().positions, [(1, 5, 3)]);
}

/// A stream that just ends, or a manager that dies with it, is no end of the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_outlives_its_manager() {
    let (world, first, second) = (World::new(), Fake::default(), Fake::default());
    let mut feed = Feed::new(1, FeedLimits::default());
    feed.window(window(0, 1));
    let hang = feed.since(&Position::default(), false).into_iter().map(|event| Some(Ok(event)));
    first.part().watches = [hang.chain([None]).collect()].into();
    feed.window(window(1, 3));
    feed.finish(result_bytes());
    let rest = feed.since(&Position { epoch: 1, seq: 1, window: 1 }, false);
    let rest: Vec<_> = rest.into_iter().map(|event| Some(Ok(event))).collect();
    second.part().watches = [Vec::new(), rest].into();
    // With a runtime of its own, it dies as a process does: all its sockets are closed.
    let process = tokio::runtime::Runtime::new().unwrap();
    let (world, fake) = (Arc::new(world), first.clone());
    let born = world.clone();
    let one = process.spawn(async move { born.manager(1, &fake).await }).await.unwrap();
    let two = world.manager(2, &second).await;
    let client = world.client(&[one.address(), two.address()]).await;
    let mut watch = client.watch(JOB, false);
    let told = watch.next().await.unwrap().unwrap();
    assert!(matches!(told, WatchUpdate::Shown(Shown::Window { .. })), "{told:?}");
    drop(one);
    process.shutdown_background();
    let seen = all(watch).await.unwrap();
    let kept: Vec<&String> = seen.iter().filter(|line| *line != "broken").collect();
    assert_eq!(kept, ["1-1: 2", "final p"]);
    assert!(seen.len() >= 4, "once for the death, once for the stream that ended: {seen:?}");
    assert!(second.part().positions.iter().all(|position| *position == (1, 1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_job_is_not_watched() {
    let (world, fake) = (World::new(), Fake::default());
    fake.part().refuses = Some(Status::not_found("job unknown"));
    let manager = world.manager(1, &fake).await;
    let client = world.client(&[manager.address()]).await;
    let error = all(client.watch(JOB, true)).await.unwrap_err();
    assert!(matches!(error, FleetError::Refused { code: Code::NotFound, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_any_manager_ends_with_what_each_of_them_said() {
    let (world, fake) = (World::new(), Fake::default());
    fake.part().refuses = Some(Status::unavailable("cut off from the majority"));
    let manager = world.manager(1, &fake).await;
    let mut options = world.options(&[manager.address()]);
    options.patience = Duration::from_millis(100);
    let client = FleetClient::connect(options).await.unwrap();
    let error = all(client.watch(JOB, true)).await.unwrap_err().to_string();
    assert!(error.contains("cut off from the majority"), "{error}");
    assert!(error.contains(&manager.address().to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_cut_off_is_fetched_from_another_manager() {
    let (world, first, second) = (World::new(), Fake::default(), Fake::default());
    first.part().result = Some(result_bytes());
    first.part().damages = 1;
    second.part().result = Some(result_bytes());
    let one = world.manager(1, &first).await;
    let two = world.manager(2, &second).await;
    let client = world.client(&[one.address(), two.address()]).await;
    assert_eq!(client.result(JOB).await.unwrap().plan, "p");
    assert_eq!((first.part().asked, second.part().asked), (1, 1));
    second.part().result = None;
    let error = client.result(JOB).await.unwrap_err().to_string();
    assert!(error.contains("has not ended"), "{error}");
}
