//! Submissions, questions and refusals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fence::JobId;
use fleet::client::{ClientOptions, FleetClient, FleetError, Steering, Submission, blob_of};
use fleet::wire::proto::submit_reply::{Answer, Pending, Rejected, RetryLater};
use fleet::wire::{self, proto};
use tonic::Status;
use trust::{Role, Validity};

use crate::client::fake::{Fake, JOB, World, accepted, days, now, nowhere};

fn reply(answer: Answer) -> Result<proto::SubmitReply, Status> {
    Ok(proto::SubmitReply { answer: Some(answer) })
}

fn submission() -> Submission {
    let bundle = blob_of(b"bundle");
    let age = Duration::from_secs(3);
    Submission { key: "k".to_owned(), name: "plan".to_owned(), bundle, age }
}

/// Pending and busy are asked again with the same key, and the age of the first try grows.
#[tokio::test(flavor = "multi_thread")]
async fn a_submission_is_asked_again_with_the_same_key_until_it_is_known() {
    let (world, fake) = (World::new(), Fake::default());
    fake.part().submits = [
        reply(Answer::Pending(Pending { job: wire::job_bytes(JOB) })),
        reply(Answer::Retry(RetryLater { after_ms: 10, reason: "nobody leads".to_owned() })),
        Err(Status::unavailable("this manager is cut off from the others")),
        accepted(),
    ]
    .into();
    let manager = world.manager(1, &fake).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let mut options = world.options(&[manager.address()]);
    options.notice = Some(Arc::new(move |text| heard.lock().unwrap().push(text.to_owned())));
    let client = FleetClient::connect(options).await.unwrap();
    let submitted = client.submit(&submission()).await.unwrap();
    assert_eq!((submitted.job, submitted.repeated), (JOB, false));
    let part = fake.part();
    assert_eq!(part.keys.len(), 4);
    assert!(part.keys.iter().all(|(key, age)| key == "k" && *age >= 3000), "{:?}", part.keys);
    assert!(part.keys.is_sorted_by_key(|(_, age)| *age), "{:?}", part.keys);
    let told = told.lock().unwrap().join("\n");
    for reason in ["not known yet", "nobody leads", "cut off from the others"] {
        assert!(told.contains(reason), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_or_leaderless_manager_is_passed_over() {
    let (world, dumb, good) = (World::new(), Fake::default(), Fake::default());
    dumb.part().refuses = Some(Status::unavailable("nobody leads here"));
    good.part().submits = [accepted()].into();
    let first = world.manager(1, &dumb).await;
    let second = world.manager(2, &good).await;
    let client = world.client(&[nowhere(), first.address(), second.address()]).await;
    assert_eq!(client.submit(&submission()).await.unwrap().job, JOB);
    assert_eq!(dumb.part().asked, 1);
    // The one that answered is asked first from now on.
    assert_eq!(client.steer(JOB, &Steering::Pause).await.unwrap().said, "paused");
    assert_eq!((dumb.part().asked, good.part().asked), (1, 2));
    let _ = second.leave(Duration::from_secs(2)).await;
    let error = client.status(JOB).await.unwrap_err().to_string();
    assert!(error.contains("none of 3 managers"), "{error}");
    assert!(error.contains("nobody leads here") && error.contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_is_not_asked_again() {
    let (world, fake) = (World::new(), Fake::default());
    let (kind, reason) = ("too_large".to_owned(), "needs 64 cores, the fleet has 8".to_owned());
    fake.part().submits = [reply(Answer::Rejected(Rejected { kind, reason }))].into();
    let manager = world.manager(1, &fake).await;
    let client = world.client(&[manager.address()]).await;
    let error = client.submit(&submission()).await.unwrap_err();
    assert!(matches!(error, FleetError::Rejected { .. }), "{error}");
    assert!(error.to_string().contains("needs 64 cores, the fleet has 8"), "{error}");
    assert_eq!(fake.part().keys.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_without_an_answer_in_time_says_that_it_can_be_repeated() {
    let (world, fake) = (World::new(), Fake::default());
    fake.part().submits = [reply(Answer::Pending(Pending { job: wire::job_bytes(JOB) }))].into();
    let manager = world.manager(1, &fake).await;
    let mut options = world.options(&[manager.address()]);
    options.patience = Duration::from_millis(500);
    let client = FleetClient::connect(options).await.unwrap();
    let error = client.submit(&submission()).await.unwrap_err();
    assert!(matches!(error, FleetError::Undecided { job: Some(JOB), .. }), "{error:?}");
    assert!(error.to_string().contains("same key"), "{error}");
    assert!(fake.part().keys.len() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_sent_once_and_in_parts() {
    let (world, fake) = (World::new(), Fake::default());
    let manager = world.manager(1, &fake).await;
    let client = world.client(&[manager.address()]).await;
    let bytes: Bytes = (0..wire::CHUNK_BYTES * 2 + 17).map(|i| i as u8).collect::<Vec<_>>().into();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let progress: fleet::client::Progress =
        Arc::new(move |done, of| note.lock().unwrap().push((done, of)));
    let blob = client.put(bytes.clone(), progress.clone()).await.unwrap();
    assert_eq!(blob, blob_of(&bytes));
    assert_eq!(fake.part().blobs, [bytes.to_vec()]);
    let all = bytes.len() as u64;
    let chunk = wire::CHUNK_BYTES as u64;
    assert_eq!(*seen.lock().unwrap(), [(chunk, all), (2 * chunk, all), (all, all)]);
    client.put(bytes, progress).await.unwrap();
    assert_eq!((fake.part().blobs.len(), seen.lock().unwrap().len()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_the_beginning_of_their_id() {
    let (world, fake) = (World::new(), Fake::default());
    let job = |id: u128| proto::JobStatus {
        job: wire::job_bytes(JobId(id)),
        ..proto::JobStatus::default()
    };
    fake.part().jobs = vec![job(JOB.0), job(JOB.0 ^ 1), job(9 << 120)];
    let manager = world.manager(1, &fake).await;
    let client = world.client(&[manager.address()]).await;
    assert_eq!(client.find("09").await.unwrap(), JobId(9 << 120));
    assert_eq!(client.find(&JOB.to_string()).await.unwrap(), JOB);
    assert_eq!(client.find("3F2A1111222233334444-555566667777").await.unwrap(), JOB);
    let error = client.find("3f2a").await.unwrap_err().to_string();
    assert!(error.contains("beginning of 2 jobs") && error.contains("write more"), "{error}");
    let error = client.find("77").await.unwrap_err();
    assert!(error.is_unknown_job() && error.to_string().contains("`77`"), "{error}");
    let error = client.status(JobId(5)).await.unwrap_err();
    assert!(error.is_unknown_job(), "{error}");
    assert!(error.to_string().contains(&manager.address().to_string()), "{error}");
}

/// The managers answer, and say why they take nothing: that is no doubt about what they did.
#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_nobody_takes_says_why() {
    let (world, fake) = (World::new(), Fake::default());
    let reason = "the disk of the ledger's leader is almost full".to_owned();
    fake.part().submits = [reply(Answer::Retry(RetryLater { after_ms: 10, reason }))].into();
    let manager = world.manager(1, &fake).await;
    let mut options = world.options(&[manager.address()]);
    options.patience = Duration::from_millis(500);
    let client = FleetClient::connect(options).await.unwrap();
    let error = client.submit(&submission()).await.unwrap_err().to_string();
    assert!(error.contains("not accepted") && error.contains("almost full"), "{error}");
}

/// A list has an end: the one that is meant may lie beyond it, and one more that begins the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_shortened_id_is_looked_for_among_all_jobs() {
    let (world, fake) = (World::new(), Fake::default());
    let job = |id: u128| proto::JobStatus {
        job: wire::job_bytes(JobId(id)),
        ..proto::JobStatus::default()
    };
    let mut jobs: Vec<_> = (0..1_500).map(|number| job((0xab << 120) | number)).collect();
    jobs.extend([job(9 << 120), job((0xcd << 120) | 1)]);
    jobs.insert(0, job(0xcd << 120));
    fake.part().jobs = jobs;
    let manager = world.manager(1, &fake).await;
    let client = world.client(&[manager.address()]).await;
    assert_eq!(client.find("09").await.unwrap(), JobId(9 << 120));
    let error = client.find("cd").await.unwrap_err().to_string();
    assert!(error.contains("beginning of 2 jobs"), "{error}");
    let error = client.find("ab").await.unwrap_err().to_string();
    assert!(error.contains("beginning of 1500 jobs"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_certificates_are_refused_by_name_and_at_once() {
    let (world, other) = (World::new(), World::new());
    let manager = world.manager(1, &Fake::default()).await;
    let begun = tokio::time::Instant::now();
    let connect = async |options: ClientOptions| match FleetClient::connect(options).await {
        Ok(client) => client.fleet().await.err(),
        Err(error) => Some(error),
    };
    let expired = Validity { not_before: now() - 1000, not_after: now() - 10 };
    let mut options = world.options(&[manager.address()]);
    options.credentials = world.files(Role::Client, 901, expired);
    let error = connect(options).await.unwrap().to_string();
    assert!(error.contains("expired"), "{error}");

    let mut options = world.options(&[manager.address()]);
    options.credentials = other.files(Role::Client, 902, days(3));
    let error = connect(options).await.unwrap().to_string();
    assert!(error.contains(&manager.address().to_string()), "{error}");
    assert!(error.contains("not issued by a CA") && error.contains("of that cluster"), "{error}");

    let mut options = world.options(&[manager.address()]);
    options.credentials = world.files(Role::Worker, 903, days(3));
    options.managers = Vec::new();
    assert!(matches!(connect(options).await, Some(FleetError::NoManagers)));
    assert!(begun.elapsed() < Duration::from_secs(10));
}
