//! What a request costs: the same load under a conductor and as an attempt under a lease, in turns.
//!
//! `cargo run --release -p engine --example cost -- URL [SECONDS] [ROUNDS] [VUS]`: CPU time per
//! request of the generator's threads, and the ratio. Figures of one run are comparable with each
//! other only.

use base::clock;
use permit::{IssuedFile, SendPermit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use engine::attempt::{
    Ended, LoadOptions, Loaded, Report, ShardControl, ShardRun, ShardSpec, Wiring,
};
use engine::{Conductor, RunOptions};
use plan::{Format, Plan, ReadOptions};
use stats::totals::grand_total;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(url) = arguments.first() else {
        eprintln!("usage: cost URL [SECONDS] [ROUNDS] [VUS]");
        std::process::exit(2);
    };
    let number = |at: usize, otherwise: u64| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seconds, rounds, vus) = (number(1, 3), number(2, 5), number(3, 16));
    let text = format!(
        "target: {url}\nworkflows: [ {{ name: w, load: {{ vus: {vus}, duration: {seconds}s }}, \
         steps: [ {{ get: / }} ] }} ]\n"
    );
    let read = || {
        let plan = plan::read_str(&text, Format::Yaml, ".".as_ref(), &ReadOptions::new(&|_| None));
        plan.unwrap_or_else(|problems| panic!("{problems}"))
    };
    let mut costs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..=rounds {
        for (name, run) in
            [("conductor", conductor as fn(Plan) -> f64), ("attempt", attempt as fn(Plan) -> f64)]
        {
            let cost = run(read());
            // The first round only warms up.
            if round > 0 {
                println!("{name:10} {cost:8.3} us of CPU per request");
                costs.entry(name).or_default().push(cost);
            }
        }
    }
    let median = |name: &str| {
        let mut all = costs[name].clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (local, leased) = (median("conductor"), median("attempt"));
    println!("median: conductor {local:.3}, attempt {leased:.3}, ratio {:.3}", leased / local);
}

fn per_request(cpu: Duration, requests: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / requests.max(1) as f64
}

fn conductor(plan: Plan) -> f64 {
    let options = RunOptions { cores: Some(1), ..RunOptions::default() };
    let (conductor, _controller) = Conductor::new(plan, options).expect("it compiles");
    let result = conductor.run(&mut |_| {}).expect("it starts");
    let cpu = result.generator.cpu_user + result.generator.cpu_system;
    per_request(cpu, grand_total(&result.totals, &result.layout).completed)
}

/// With all that a worker has around it: a lease that is renewed, issued counts, a window every 100
/// ms.
fn attempt(plan: Plan) -> f64 {
    let loaded = Loaded::from_plan(plan, LoadOptions::default()).expect("it loads");
    let path = std::env::temp_dir().join(format!("volley-cost-{}", std::process::id()));
    let issued = Arc::new(IssuedFile::create(&path, b"cost").expect("a file"));
    let permit = SendPermit::leased();
    let lease = Duration::from_secs(6);
    permit.extend(clock::now().after(lease), clock::now());
    let (sender, reports) = channel();
    let sender = std::sync::Mutex::new(sender);
    let wiring = Wiring {
        permit: permit.clone(),
        issued: Some(issued),
        reports: Arc::new(move |report| {
            if let Ok(sender) = sender.lock() {
                let _ = sender.send(report);
            }
        }),
        sample_sink: None,
    };
    let run = ShardRun::prepare(&loaded, ShardSpec::new(0, 0, 1), wiring).expect("a thread");
    run.start_at(clock::now());
    let (mut completed, mut spare) = (0, None);
    let mut tick = clock::now();
    loop {
        match reports.recv_timeout(Duration::from_millis(10)) {
            Ok(Report::Counted(mut counted)) => {
                completed += grand_total(&counted.window, loaded.layout()).completed;
                counted.window.clear();
                spare = Some(counted.window);
            }
            Ok(Report::Ended(ended)) => {
                let Ended { last, .. } = *ended;
                let last = last.expect("it ended well");
                completed += grand_total(&last.window, loaded.layout()).completed;
                let _ = std::fs::remove_file(path);
                return per_request(last.cpu.0 + last.cpu.1, completed);
            }
            _ => {}
        }
        if clock::now().nanos_since(tick) >= 100_000_000 {
            tick = clock::now();
            permit.extend(tick.after(lease), tick);
            run.swap(spare.take(), None);
        }
    }
}
