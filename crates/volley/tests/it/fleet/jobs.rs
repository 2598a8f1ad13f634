//! What a job does when nothing goes wrong: counts are exact, layers hand values on, people can
//! steer it.

use std::collections::BTreeSet;

use crate::common::{Target, plan, plan_on, until};
use crate::fleet::cluster::Cluster;
use crate::fleet::recorder::Recorder;

pub fn requests(summary: &serde_json::Value) -> u64 {
    summary["requests"]["count"].as_u64().unwrap_or_else(|| panic!("{summary:#}"))
}

/// EXEC-1, ARCH-5: the same plan, summary and exit codes as `volley run`; totals equal what the
/// target counted.
#[test]
fn a_plan_on_one_worker_counts_what_the_target_counted() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 2);
    let text = plan(&target.url(), "executor: constant-vus, vus: 4, duration: 2s");
    let path = cluster.room.write("plan.yaml", &text);
    let done =
        cluster.volley(&["submit", path.to_str().unwrap(), "--watch", "--summary", "s.json"]);
    done.expect(0);
    let summary = cluster.room.json("s.json");
    assert_eq!(requests(&summary), target.total());
    assert!(target.total() > 100);
    // A local run of the same plan says the same things.
    let local =
        cluster.room.volley(["run", path.to_str().unwrap(), "--quiet", "--summary", "l.json"]);
    local.expect(0);
    let keys = |name: &str| {
        let summary = cluster.room.json(name);
        summary.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys("s.json"), keys("l.json"));
}

/// EXEC-66, EXEC-92: arrivals divide exactly over the shards of several workers.
#[test]
fn arrivals_divide_exactly_over_workers() {
    let target = Target::start();
    let cluster = Cluster::start(3, 2, 2);
    let load = "executor: constant-arrival-rate, rate: 301/s, duration: 3s, max_vus: 60";
    let job = cluster.submit(&plan_on(4, &target.url(), load), &[]);
    target.wait_for_requests(100);
    let status = cluster.status(&job);
    let shards = status["workflows"][0]["shards"].as_array().unwrap();
    let workers: BTreeSet<&str> = shards.iter().map(|it| it["worker"].as_str().unwrap()).collect();
    assert_eq!((shards.len(), workers.len()), (4, 2), "{status:#}");
    let summary = cluster.result(&job, 0);
    assert_eq!(summary["iterations"], 903, "{summary:#}");
    assert_eq!(target.total(), 903);
    let status = cluster.status(&job);
    assert_eq!(status["outcome"], "COMPLETED");
    assert_eq!(status["counters"]["issued"], 903);
    assert_eq!(status["counters"]["completed"], 903);
}

/// LIFE-72, LIFE-77, CORE-110: while a job makes progress, its time is extended; without that it
/// would end after 12 s.
#[test]
fn a_job_that_makes_progress_gets_more_time() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 1);
    let load = "executor: constant-arrival-rate, rate: 20/s, duration: 13s, max_vus: 10";
    let text = format!("timeout: 12s\n{}", plan(&target.url(), load));
    let job = cluster.submit(&text, &[]);
    let summary = cluster.result(&job, 0);
    assert_eq!(requests(&summary), target.total());
    let status = cluster.status(&job);
    assert_eq!(status["outcome"], "COMPLETED", "{status:#}");
    assert!(status["age_s"].as_f64().unwrap() > 12.0, "{status:#}");
}

/// EXEC-170 to 182: a later workflow sees what an earlier one provides, once its layer is
/// committed; `${env}` is resolved at the client, `${secret}` at the worker.
#[test]
fn layers_hand_values_on_and_secrets_stay_on_workers() {
    let target = Recorder::start();
    let cluster = Cluster::start(1, 2, 1);
    let text = format!(
        "name: layered
target: {}
setup:
  - name: prepare
    post: /echo
    headers: {{ x-token: \"${{secret.TOKEN}}\" }}
    body: start
workflows:
  - name: first
    load: {{ executor: shared-iterations, vus: 2, iterations: 6, max_duration: 20s }}
    steps:
      - name: login
        get: /json?region=${{env.REGION}}
        extract: {{ found: $.found }}
    provide: {{ found: [second] }}
  - name: second
    depends_on: [first]
    use: {{ found: [first] }}
    load: {{ executor: shared-iterations, vus: 1, iterations: 3, max_duration: 20s }}
    steps: [ {{ name: use, get: \"/got/${{use.found}}\" }} ]
teardown: [ {{ name: tidy, get: /tidied }} ]
",
        target.url()
    );
    let path = cluster.room.write("plan.yaml", &text);
    let args =
        ["submit", path.to_str().unwrap(), "-e", "REGION=north", "--watch", "--summary", "s.json"];
    cluster.volley(&args).expect(0);
    let seen = target.seen();
    let count = |path: &str| seen.get(path).copied().unwrap_or(0);
    assert_eq!(count("/echo"), 1, "setup once: {seen:#?}");
    assert_eq!(count("/json?region=north"), 6, "{seen:#?}");
    assert_eq!(count("/got/gold"), 3, "{seen:#?}");
    assert_eq!(count("/tidied"), 1, "teardown once: {seen:#?}");
    // The secret is nowhere in what the managers keep, nor in any log.
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", "-a", "hush-hush"])
        .arg(&cluster.local.folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the secret was written down");
}

/// `volley run` of them ends with 107 and says why; so must a job.
#[test]
fn a_script_that_cannot_begin_says_why_and_has_the_exit_code_of_a_local_run() {
    let cluster = Cluster::start(1, 1, 1);
    cluster.room.write("users-0.csv", "a");
    cluster.room.write("users-1.csv", "b");
    let options = "export const options = { vus: 1, iterations: 1, thresholds: { checks: ['rate>0.5'] } };\n\
                   export default function () {}\n";
    let submit = |text: &str| {
        let path = cluster.room.write("s.js", &format!("{text}{options}"));
        cluster.volley(&["submit", path.to_str().unwrap(), "--watch"])
    };
    let done = submit("const mine = open(`./users-${__VU}.csv`);\n").expect(107);
    assert!(done.err.contains("there is no file users-1.csv"), "{}", done.err);
    assert!(done.err.contains("it was not sent with the script"), "{}", done.err);
    assert!(!done.out.contains("THRESHOLDS"), "nothing was measured: {}", done.out);
    let done = submit("if (__VU > 0) { throw new Error('no licence'); }\n").expect(107);
    assert!(done.err.contains("no licence"), "{}", done.err);
    let done = submit("export function setup() { throw new Error('boom'); }\n").expect(107);
    assert!(done.err.contains("setup failed: Error: boom"), "{}", done.err);
    let jobs = cluster.json(&["jobs", "--ended", "--json"]);
    let job = jobs["jobs"][0]["job"].as_str().unwrap();
    let done = cluster.volley(&["results", job]).expect(107);
    assert!(done.err.contains("setup failed: Error: boom"), "{}", done.err);
}

/// ARCH-96: what runs is counted as it runs, whichever manager is asked. An owner that does not
/// answer holds nobody up.
#[test]
fn a_running_job_shows_what_it_has_counted() {
    let target = Target::start();
    let cluster = Cluster::start(3, 1, 1);
    let job =
        cluster.submit(&plan(&target.url(), "executor: constant-vus, vus: 2, duration: 60s"), &[]);
    target.wait_for_requests(100);
    let seen = target.total();
    let counts = |value: &serde_json::Value| {
        let counters = &value["counters"];
        (counters["live"] == true, counters["completed"].as_u64().unwrap())
    };
    for manager in cluster.local.addresses() {
        let one = |args: &[&str]| {
            let at = ["--json", "--manager", &manager, "--certs", cluster.client()];
            let done = cluster.room.volley([args, &at[..]].concat()).expect(0);
            serde_json::from_str::<serde_json::Value>(&done.out).unwrap()
        };
        until("its status counts", || {
            let (live, completed) = counts(&one(&["status", &job]));
            live && completed >= seen
        });
        let list = one(&["jobs"]);
        let (live, completed) = counts(&list["jobs"][0]);
        assert!(live && completed >= seen, "{list:#}");
    }
    let owner = cluster.owner(&job);
    cluster.pause(&owner);
    let other = cluster.local.managers.iter().find(|place| place.name != owner).unwrap();
    // If it led the ledger, too, another one has to be elected first.
    until("another manager lists it", || {
        let begun = std::time::Instant::now();
        let at = ["jobs", "--manager", &other.bind.to_string(), "--certs", cluster.client()];
        let said = cluster.room.volley(at);
        assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
        said.out.contains(&job[..8])
    });
    // Another one leads it soon, and counts on.
    let paused = cluster.place(&owner).node.to_string();
    until("it is counted again", || {
        let at = ["status", &job, "--json", "--manager", &other.bind.to_string()];
        let at = [&at[..], &["--certs", cluster.client()]].concat();
        let said = cluster.room.volley(at);
        let status = serde_json::from_str::<serde_json::Value>(&said.out).unwrap_or_default();
        let led = status["owner"].as_str().is_some_and(|node| node != paused);
        led && counts(&status).0 && counts(&status).1 > seen
    });
    cluster.resume(&owner);
    cluster.volley(&["cancel", &job]).expect(0);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    let status = cluster.status(&job);
    // Each of the two users may have had a request cut off on its way.
    let (live, completed) = counts(&status);
    assert!(
        !live && completed.abs_diff(target.total()) <= 2,
        "{} seen: {status:#}",
        target.total()
    );
}

/// A cancel is durable, stops the load, and is the outcome (LIFE-, EXEC-: cancel).
#[test]
fn a_cancelled_job_stops_and_says_so() {
    let target = Target::start();
    let cluster = Cluster::start(3, 1, 2);
    let job =
        cluster.submit(&plan(&target.url(), "executor: constant-vus, vus: 2, duration: 60s"), &[]);
    target.wait_for_requests(50);
    cluster.volley(&["cancel", &job, "--reason", "enough"]).expect(0);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    assert_eq!(cluster.status(&job)["outcome"], "CANCELLED");
    let seen = target.total();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(target.total(), seen, "nothing is sent after the end");
    let status = cluster.status(&job);
    assert_eq!(status["counters"]["issued"].as_u64().unwrap(), seen, "{status:#}");
    cluster.volley(&["cancel", &job]).expect(0).says("has ended already: cancelled");
}

/// A worker that is drained finishes what it runs, takes no more, and ends.
#[test]
fn a_drained_worker_finishes_its_work() {
    let target = Target::start();
    let mut cluster = Cluster::start(1, 1, 2);
    let job =
        cluster.submit(&plan(&target.url(), "executor: constant-vus, vus: 2, duration: 3s"), &[]);
    target.wait_for_requests(10);
    let worker = cluster.place("w1").node.to_string();
    cluster.volley(&["drain", &worker]).expect(0);
    let summary = cluster.result(&job, 0);
    assert_eq!(requests(&summary), target.total());
    assert_eq!(cluster.ended("w1"), 0);
    assert!(cluster.said("w1").contains("drained"));
}

/// ARCH-141: a manager that is drained gives its jobs to the others and ends; nothing that runs is
/// touched.
#[test]
fn a_drained_manager_gives_its_jobs_to_the_others() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    let load = "executor: constant-arrival-rate, rate: 50/s, duration: 8s, max_vus: 20";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(20);
    let owner = cluster.owner(&job);
    let node = cluster.place(&owner).node.to_string();
    cluster.volley(&["drain", &node, "--wait", "40s"]).expect(0).says("left");
    assert_eq!(cluster.ended(&owner), 0);
    let summary = cluster.result(&job, 0);
    assert_eq!((requests(&summary), target.total()), (400, 400));
    assert_ne!(cluster.owner(&job), owner);
}

/// `volley ctl` on a job: pause, resume.
#[test]
fn a_job_is_paused_and_resumed() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 1);
    let job =
        cluster.submit(&plan(&target.url(), "executor: constant-vus, vus: 2, duration: 4s"), &[]);
    target.wait_for_requests(20);
    // There is no rate to set where users do the same over and over.
    cluster.volley(&["ctl", "--job", &job, "scale", "--rate", "5/s"]).expect(1).says("--vus");
    cluster.volley(&["ctl", "--job", &job, "pause"]).expect(0);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let seen = target.total();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(target.total(), seen, "nothing is sent while it is paused");
    cluster.volley(&["ctl", "--job", &job, "resume"]).expect(0);
    target.wait_for_requests(seen + 20);
    let summary = cluster.result(&job, 0);
    assert_eq!(requests(&summary), target.total());
}

/// A factor multiplies what is in force, also what a factor has set before, and only what runs.
#[test]
fn a_job_is_scaled_by_a_factor() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 2);
    let open = "executor: constant-arrival-rate, rate: 20/s, duration: 40s, max_vus: 40";
    let job = cluster.submit(&plan_on(2, &target.url(), open), &[]);
    target.wait_for_requests(5);
    let now = |job: &str| cluster.status(job)["workflows"][0].clone();
    assert_eq!(now(&job)["per_second_now"], 20.0);
    cluster
        .volley(&["ctl", "--job", &job, "scale", "--by", "2"])
        .expect(0)
        .says("main: 40 per second");
    cluster.volley(&["ctl", "--job", &job, "scale", "--by", "1.5"]).expect(0).says("60 per second");
    assert_eq!(now(&job)["per_second_now"], 60.0);
    let wrong = ["ctl", "--job", &job, "scale", "--by", "2", "--workflow", "other"];
    cluster.volley(&wrong).expect(1).says("no workflow `other`; this job has: main");
    let before = target.total();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let seen = target.total() - before;
    assert!((80..=180).contains(&seen), "some 120 at 60 per second: {seen}");
    cluster.volley(&["cancel", &job, "--now"]).expect(0);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    cluster.volley(&["ctl", "--job", &job, "scale", "--by", "2"]).expect(1).says("has ended");

    let closed = "executor: constant-vus, vus: 8, duration: 40s";
    let job = cluster.submit(&plan(&target.url(), closed), &[]);
    cluster.until("it runs", || now(&job)["vus_now"] == 8);
    cluster.volley(&["ctl", "--job", &job, "scale", "--by", "0.5"]).expect(0).says("4 VUs");
    assert_eq!(now(&job)["vus_now"], 4);
    let more = cluster.volley(&["ctl", "--job", &job, "scale", "--by", "10"]).expect(1);
    more.says("at most 8 VUs are planned");
    cluster.volley(&["cancel", &job, "--now"]).expect(0);
}

/// Bad input: the same report as locally, and nothing in the ledger; unknown jobs and plans that do
/// not fit are refused by name, with the numbers.
#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 1);
    let path = cluster.room.write("bad.yaml", "name: bad\nworkflows: [ { name: x, stops: [] } ]\n");
    let submitted = cluster.volley(&["submit", path.to_str().unwrap()]).expect(104);
    let local = cluster.room.volley(["run", path.to_str().unwrap()]).expect(104);
    assert_eq!(submitted.err, local.err);
    assert_eq!(cluster.json(&["jobs", "--ended", "--json"])["jobs"].as_array().unwrap().len(), 0);
    cluster.volley(&["status", "00000000000000000000000000000abc"]).expect(1).says("job");
    let good = cluster
        .room
        .write("good.yaml", &plan(&target.url(), "executor: constant-vus, vus: 1, duration: 1s"));
    let args = ["submit", good.to_str().unwrap(), "--cores-min", "64", "--when-full", "refuse"];
    cluster.volley(&args).expect(104).says("64 cores");
    // By default it waits, and says for what.
    let job = cluster.submit(
        &plan(&target.url(), "executor: constant-vus, vus: 1, duration: 1s"),
        &["--cores-min", "64"],
    );
    until("it is said why it waits", || {
        let status = cluster.status(&job);
        status["detail"].as_str().unwrap_or_default().contains("64")
    });
    cluster.volley(&["cancel", &job]).expect(0);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
}

/// IDEM-: a submission that is repeated with its key is one job.
#[test]
fn one_key_is_one_job() {
    let target = Target::start();
    let cluster = Cluster::start(1, 1, 1);
    let text = plan(&target.url(), "executor: constant-vus, vus: 1, duration: 1s");
    let one = cluster.submit(&text, &["--key", "nightly"]);
    let two = cluster.submit(&text, &["--key", "nightly"]);
    assert_eq!(one, two);
    cluster.result(&one, 0);
    let jobs = cluster.json(&["jobs", "--ended", "--json"]);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
    let other = cluster
        .room
        .write("other.yaml", &plan(&target.url(), "executor: constant-vus, vus: 2, duration: 1s"));
    cluster
        .volley(&["submit", other.to_str().unwrap(), "--key", "nightly"])
        .expect(104)
        .says("key");
}

/// Unique rows are issued once in the whole job, over all workers.
#[test]
fn unique_rows_are_used_once_in_the_job() {
    let target = Recorder::start();
    let cluster = Cluster::start(1, 2, 1);
    let rows: String = (0..500).map(|n| format!("u{n}\n")).collect();
    cluster.room.write("users.csv", &format!("name\n{rows}"));
    let text = format!(
        "name: unique
target: {}
data: {{ users: {{ file: users.csv, order: unique-per-iteration, when_exhausted: stop }} }}
workflows:
  - name: main
    cores: 2
    load: {{ executor: constant-vus, vus: 8, duration: 20s }}
    steps: [ {{ name: one, get: \"/row/${{data.users.name}}\" }} ]
",
        target.url()
    );
    let job = cluster.submit(&text, &[]);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    let seen = target.seen();
    assert!(seen.values().all(|count| *count == 1), "{seen:#?}");
    assert_eq!(seen.len(), 500, "{seen:#?}");
}
