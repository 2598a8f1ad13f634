//! Watches that managers pass on to each other.

use fleet::client::{ClientOptions, FleetClient};
use fleet::wire::job_bytes;
use fleet::wire::proto::WatchRequest;
use fleet::wire::proto::jobs_client::JobsClient;
use tokio::time::timeout;
use tonic::Code;
use trust::{Expected, Role};

use crate::manager::harness::{Datacenter, WITHIN, submit};

/// A manager that has been replaced as a job's owner says so to whoever passes a watch on to it. It
/// used to keep it, and the watcher saw nothing until the job's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_kept_only_where_the_job_is_led() {
    let center = Datacenter::start(3, |_, _| ()).await;
    let options = ClientOptions::new(center.files(Role::Client, 1), center.local.addresses());
    let client = FleetClient::connect(options).await.unwrap();
    // Without workers it waits, and is led all the same.
    let nowhere = ([127, 0, 0, 1], 9).into();
    let job = submit(&client, center.temp.path(), nowhere, 1).await;
    let owner = timeout(WITHIN, async {
        loop {
            match client.status(job).await {
                Ok(status) if !status.owner.is_empty() => return status.owner,
                _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    });
    let owner = owner.await.expect("somebody leads it");
    for (number, place) in center.local.managers.iter().enumerate() {
        // As another manager of the group passes it on.
        let own = center.own_files((number + 1) % 3);
        let expected = Expected { role: Role::Manager, node: None };
        let mut jobs = JobsClient::new(center.channel_to(own, center.address(number), expected));
        let request = WatchRequest { job: job_bytes(job), ..WatchRequest::default() };
        let mut events = jobs.watch(request).await.unwrap().into_inner();
        let first = timeout(WITHIN, events.message()).await.expect("it is told something");
        match place.node.to_string() == owner {
            true => assert!(first.unwrap().is_some(), "what has happened"),
            false => assert_eq!(first.unwrap_err().code(), Code::Unavailable),
        }
    }
}
