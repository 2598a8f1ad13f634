//! Scripts of one breaker, and properties of many.

use proptest::prelude::*;

use super::*;

const DEFAULT: Settings =
    Settings { failures: 3, within: Duration::from_secs(30), cool_down: Duration::from_secs(10) };

fn at(seconds: f64) -> Moment {
    Moment::since_boot(Duration::from_secs(1000) + Duration::from_secs_f64(seconds))
}

/// Each line is `seconds event => what comes of it, and the state then`. Permits have names.
#[track_caller]
fn play(script: &str) {
    let mut breaker = Breaker::new(Settings::default());
    let mut permits: BTreeMap<String, Permit> = BTreeMap::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, expected) = line.split_once("=>").unwrap();
        let words: Vec<&str> = left.split_whitespace().collect();
        let now = at(words[0].parse().unwrap());
        let note = |breaker: &mut Breaker, name: &str, outcome| match breaker.note(
            permits[name],
            outcome,
            now,
        ) {
            None => "",
            Some(Change::Opened) => "opens",
            Some(Change::Closed) => "closes",
        };
        let came = match words[1..] {
            ["look"] => "",
            ["heard"] => {
                breaker.heard();
                ""
            }
            ["ask", name] => match breaker.ask(now) {
                Some(permit) => {
                    permits.insert(name.to_owned(), permit);
                    "yes"
                }
                None => "no",
            },
            ["insist", name] => {
                permits.insert(name.to_owned(), breaker.insist(now));
                "yes"
            }
            [name, "answered"] => note(&mut breaker, name, Outcome::Answered),
            [name, "silent"] => note(&mut breaker, name, Outcome::Failed(Failure::NoAnswer)),
            [name, "unreached"] => note(&mut breaker, name, Outcome::Failed(Failure::NotReached)),
            _ => panic!("{line}"),
        };
        let state = match breaker.state(now) {
            State::Closed => "closed",
            State::HalfOpen => "half open",
            State::Open => "open",
        };
        let came = [came, state].into_iter().filter(|word| !word.is_empty());
        assert_eq!(came.collect::<Vec<_>>().join(", "), expected.trim(), "in `{line}`");
    }
}

/// ARCH-117, ARCH-134: three failures within 30 s open it; after 10 s one trial; an answer closes
/// it.
#[test]
fn three_failures_open_a_breaker_and_one_trial_closes_it() {
    assert_eq!(Settings::default(), DEFAULT);
    play(
        "0    ask a         => yes, closed
         3    a silent      => closed
         3    ask b         => yes, closed
         6    b unreached   => closed
         7    ask c         => yes, closed
         10   c silent      => opens, open
         10   ask d         => no, open
         19.9 ask d         => no, open
         20   look          => half open
         20   ask d         => yes, half open
         20   ask e         => no, half open
         20.5 d answered    => closes, closed
         21   ask e         => yes, closed
         22   e silent      => closed",
    );
}

/// ARCH-117: a trial that fails opens it again, for the whole cool-down.
#[test]
fn a_failed_trial_opens_it_again() {
    play(
        "0    ask a         => yes, closed
         1    a silent      => closed
         1    ask a         => yes, closed
         2    a silent      => closed
         2    ask a         => yes, closed
         3    a silent      => opens, open
         13   ask t         => yes, half open
         16   t silent      => opens, open
         25   ask u         => no, open
         26   ask u         => yes, half open
         27   u answered    => closes, closed
         27   ask v         => yes, closed
         28   v silent      => closed",
    );
}

/// A word from the target itself brings the trial forward, and a target that can only speak is
/// tried once a second.
#[test]
fn a_target_that_speaks_is_tried_before_its_cool_down_is_over() {
    play(
        "0    ask a         => yes, closed
         1    a silent      => closed
         1    ask a         => yes, closed
         2    a silent      => closed
         2    heard         => closed
         2    ask a         => yes, closed
         3    a silent      => opens, open
         3.2  heard         => open
         3.9  ask t         => no, open
         4    ask t         => yes, half open
         4.5  t unreached   => opens, open
         5    heard         => open
         5.5  ask t         => yes, half open
         5.6  t answered    => closes, closed",
    );
}

/// The window: at 30 s the first still counts, after that no more. An answer between them does not
/// wipe them out.
#[test]
fn failures_count_for_their_window() {
    play(
        "0    ask a         => yes, closed
         0    a silent      => closed
         1    ask b         => yes, closed
         15   b silent      => closed
         16   ask c         => yes, closed
         17   c answered    => closed
         18   ask d         => yes, closed
         30.1 d silent      => closed
         31   ask e         => yes, closed
         45   e silent      => opens, open",
    );
}

/// A connection that breaks with four messages on it has failed once; and what was sent before the
/// breaker opened neither opens nor closes it later.
#[test]
fn failures_that_overlap_are_one() {
    play(
        "0    ask a         => yes, closed
         0    ask b         => yes, closed
         0.5  ask c         => yes, closed
         0.6  ask late      => yes, closed
         1    a unreached   => closed
         1    b unreached   => closed
         1    c unreached   => closed
         1    ask d         => yes, closed
         2    d unreached   => closed
         2    ask e         => yes, closed
         3    e unreached   => opens, open
         4    late answered => open
         13   ask t         => yes, half open
         13   late silent   => half open
         14   t answered    => closes, closed
         15   late silent   => closed
         15   ask f         => yes, closed
         16   f silent      => closed
         16   ask f         => yes, closed
         17   f silent      => closed",
    );
}

/// What must be tried is tried in every state. It counts as the trial if one is due, and not at all
/// before that.
#[test]
fn what_must_be_tried_is_tried() {
    play(
        "0    insist a      => yes, closed
         1    a silent      => closed
         1    insist a      => yes, closed
         2    a silent      => closed
         2    insist a      => yes, closed
         3    a silent      => opens, open
         4    insist stop   => yes, open
         5    stop answered => open
         6    insist stop   => yes, open
         9    stop silent   => open
         13   insist stop   => yes, half open
         13   ask x         => no, half open
         13   insist y      => yes, half open
         13   y answered    => half open
         14   stop answered => closes, closed",
    );
}

/// A trial whose end nobody tells does not keep everybody out for ever, and counts for nothing
/// afterwards.
#[test]
fn a_trial_that_nobody_ends_is_given_up() {
    play(
        "0    ask a         => yes, closed
         1    a silent      => closed
         1    ask a         => yes, closed
         2    a silent      => closed
         2    ask a         => yes, closed
         3    a silent      => opens, open
         13   ask lost      => yes, half open
         22.9 ask t         => no, half open
         23   ask t         => yes, half open
         24   lost answered => half open
         24   t answered    => closes, closed",
    );
}

#[test]
fn a_breaker_says_why_it_is_open() {
    let mut breaker = Breaker::new(Settings::default());
    assert_eq!(breaker.tripped(), None);
    for second in [0.0, 4.0, 9.0] {
        let permit = breaker.ask(at(second)).unwrap();
        let failure = Outcome::Failed(Failure::NoAnswer);
        let _ = breaker.note(permit, failure, at(second + 1.0));
    }
    assert_eq!(breaker.tripped().unwrap().to_string(), "no answer 3 times in 9 s");
    let trial = breaker.ask(at(30.0)).unwrap();
    let _ = breaker.note(trial, Outcome::Failed(Failure::NotReached), at(30.1));
    let text = "not reached 3 times in 9 s, nor when tried again";
    assert_eq!(breaker.tripped().unwrap().to_string(), text);
}

/// What a world does to the breakers of three targets.
#[derive(Clone, Copy, Debug)]
enum Act {
    WorkerRequest(u8),
    Insist(u8),
    /// The oldest message under way to it.
    Answered(u8),
    Failed(u8),
    /// The oldest message is never heard of again.
    Dropped(u8),
    Wait(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3u8).prop_map(Act::WorkerRequest),
        1 => (0..3u8).prop_map(Act::Insist),
        2 => (0..3u8).prop_map(Act::Answered),
        6 => (0..3u8).prop_map(Act::Failed),
        1 => (0..3u8).prop_map(Act::Dropped),
        4 => (0..15_000u16).prop_map(Act::Wait),
    ]
}

/// A target as somebody sees it who only reads the rules: all counted failures, openings and trials
/// with their times.
#[derive(Default)]
struct Model {
    counted: Vec<Moment>,
    opened: Option<Moment>,
    closed: Moment,
    trial: Option<Moment>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// ARCH-117, ARCH-136: whatever happens in whatever order, each breaker follows the rules, and
    /// does what it would do if it were alone.
    #[test]
    fn breakers_follow_the_rules_and_not_each_other(acts in prop::collection::vec(act(), 1..120)) {
        let mut all: Breakers<u8> = Breakers::new(Settings::default());
        let mut alone = [0, 1, 2].map(|_| Breaker::new(Settings::default()));
        let mut models = [0, 1, 2].map(|_| Model::default());
        let mut sent: [VecDeque<Permit>; 3] = Default::default();
        let (mut now, mut opened) = (at(0.0), 0);
        for act in acts {
            let (target, outcome) = match act {
                Act::Wait(ms) => {
                    now = now.after(Duration::from_millis(ms.into()));
                    continue;
                }
                Act::WorkerRequest(target) | Act::Insist(target) => {
                    let n = usize::from(target);
                    let model = &mut models[n];
                    let allowed = match (model.opened, model.trial) {
                        (None, _) => true,
                        (Some(at), None) => now.since(at) >= DEFAULT.cool_down,
                        (Some(_), Some(at)) => now.since(at) >= DEFAULT.cool_down,
                    };
                    if model.opened.is_some() && allowed {
                        model.trial = Some(now);
                    }
                    let (permit, own) = match act {
                        Act::WorkerRequest(_) => (all.ask(target, now), alone[n].ask(now)),
                        _ => (Some(all.insist(target, now)), Some(alone[n].insist(now))),
                    };
                    prop_assert_eq!(permit, own);
                    if matches!(act, Act::WorkerRequest(_)) {
                        prop_assert_eq!(permit.is_some(), allowed);
                    }
                    sent[n].extend(permit);
                    continue;
                }
                Act::Dropped(target) => {
                    sent[usize::from(target)].pop_front();
                    continue;
                }
                Act::Answered(target) => (target, Outcome::Answered),
                Act::Failed(target) => (target, Outcome::Failed(Failure::NoAnswer)),
            };
            let n = usize::from(target);
            let Some(permit) = sent[n].pop_front() else { continue };
            let model = &mut models[n];
            let is_trial = permit.trial && model.trial == Some(permit.sent);
            let expected = match (model.opened, outcome) {
                (Some(_), Outcome::Answered) if is_trial => {
                    (model.opened, model.trial, model.closed) = (None, None, now);
                    model.counted.clear();
                    Some(Change::Closed)
                }
                (Some(_), Outcome::Failed(_)) if is_trial => {
                    (model.opened, model.trial) = (Some(now), None);
                    Some(Change::Opened)
                }
                (None, Outcome::Failed(_)) => {
                    let last = model.counted.last().copied().unwrap_or(model.closed);
                    if permit.sent >= last.max(model.closed) {
                        model.counted.push(now);
                    }
                    let recent =
                        model.counted.iter().filter(|at| now.since(**at) <= DEFAULT.within).count();
                    let counts = model.counted.last() == Some(&now);
                    (counts && recent >= 3).then(|| {
                        model.opened = Some(now);
                        Change::Opened
                    })
                }
                _ => None,
            };
            prop_assert_eq!(all.note(target, permit, outcome, now), expected);
            prop_assert_eq!(alone[n].note(permit, outcome, now), expected);
            opened += u64::from(expected == Some(Change::Opened));
            prop_assert_eq!(all.opened(), opened);
            for target in 0..3u8 {
                let (n, model) = (usize::from(target), &models[usize::from(target)]);
                prop_assert_eq!(all.state(target, now), alone[n].state(now));
                prop_assert_eq!(all.state(target, now) == State::Closed, model.opened.is_none());
                prop_assert_eq!(all.tripped(target), alone[n].tripped());
            }
        }
    }
}
