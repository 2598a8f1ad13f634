//! When a silence counts, and how long streams are silent that have not ended.

use super::*;

const MS: fn(u64) -> Moment = |ms| Moment::since_boot(Duration::from_millis(ms));

fn detector() -> Detector<u8> {
    let ms = Duration::from_millis;
    let mut detector = Detector::new(Patience { first: ms(1_800), most: ms(9_000) });
    detector.watch([1, 2], MS(0));
    detector
}

fn silent(detector: &Detector<u8>, ms: u64) -> Vec<u8> {
    detector.silent(MS(ms)).collect()
}

#[test]
fn whoever_says_nothing_is_silent_after_a_while_and_not_any_more_when_it_speaks() {
    let mut detector = detector();
    detector.heard(2, MS(100));
    assert_eq!(silent(&detector, 1_799), [0u8; 0]);
    assert_eq!(silent(&detector, 1_800), [1]);
    assert_eq!(silent(&detector, 1_900), [1, 2]);
    detector.heard(1, MS(1_950));
    assert_eq!(
        silent(&detector, 1_950),
        [0u8; 0],
        "that gap meant nothing, so 2 gets more time as well"
    );
    assert_eq!(detector.patience(MS(1_950)), Duration::from_millis(3 * 1_950));
}

#[test]
fn a_gap_that_meant_nothing_is_remembered_for_minutes() {
    let mut detector = detector();
    detector.heard(1, MS(1_000));
    assert_eq!(detector.patience(MS(1_000)), Duration::from_secs(3));
    assert_eq!(detector.patience(MS(299_000)), Duration::from_secs(3));
    assert_eq!(detector.patience(MS(599_000)), Duration::from_secs(3));
    assert_eq!(detector.patience(MS(600_000)), Duration::from_millis(1_800));
}

#[test]
fn an_outage_and_a_restart_teach_nothing() {
    let mut detector = detector();
    detector.heard(1, MS(9_001));
    detector.refused(2, MS(3_000));
    detector.heard(2, MS(3_500));
    assert_eq!(detector.patience(MS(9_001)), Duration::from_millis(1_800));
}

#[test]
fn two_refusals_apart_are_enough_and_one_is_not() {
    let mut detector = detector();
    for (at, gone) in [(10, false), (60, false), (109, false), (110, true)] {
        detector.refused(1, MS(at));
        assert_eq!(silent(&detector, at), if gone { vec![1] } else { vec![] }, "{at}");
    }
    detector.heard(1, MS(120));
    assert_eq!(silent(&detector, 120), [0u8; 0]);
    detector.refused(1, MS(130));
    assert_eq!(silent(&detector, 130), [0u8; 0], "what was before it spoke counts no more");
}

#[test]
fn who_stood_still_itself_judges_nobody_by_that() {
    let mut detector = detector();
    detector.refused(1, MS(100));
    detector.stood_still(Duration::from_secs(5), MS(5_200));
    assert_eq!(silent(&detector, 5_200), [0u8; 0]);
    assert_eq!(silent(&detector, 6_800), [1, 2]);
}

/// A new leader knows when it has last heard the old one, and begins with the others.
#[test]
fn who_is_watched_already_stays_as_it_is() {
    let mut detector = Detector::new(detector().patience);
    detector.watch([1], MS(400));
    detector.watch([1, 2], MS(1_400));
    assert_eq!(silent(&detector, 2_200), [1]);
    detector.watch([2], MS(2_300));
    assert_eq!(silent(&detector, 2_300), [0u8; 0]);
}

/// Numbers that look random, the same ones every time.
struct Dice(u64);

impl Dice {
    fn chance(&mut self, percent: u64) -> bool {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100 < percent
    }
}

/// A stream of questions and answers, ten a second, over TCP on a network that loses 20 of 100
/// packets each way. What is lost is sent again after 0.2 s, then after twice as long each time,
/// and what follows waits for it. After 0.9 s without an answer the connection is given up; a new
/// one is tried every 0.6 s, and needs packets both ways to arrive at once, and a handshake.
struct Stream {
    /// Nothing arrives before.
    until: u64,
}

impl Stream {
    fn answers(&mut self, now: u64, dice: &mut Dice) -> bool {
        if now < self.until {
            return false;
        }
        if dice.chance(64) {
            return true;
        }
        let (mut lost_for, mut again) = (0, 200);
        while lost_for < 900 {
            lost_for += again;
            again *= 2;
            if dice.chance(64) {
                break;
            }
        }
        while lost_for >= 900 && !dice.chance(45) {
            lost_for += 600;
        }
        self.until = now + lost_for;
        false
    }
}

/// 24 hours of 20 % loss, with a member and a leader that stand still for a second twice a minute
/// each: nobody is taken for silent, although a patience that learns nothing would do so every
/// other minute. The leader hears a member on two connections, the second of which it uses only to
/// ask back.
#[test]
fn nobody_is_taken_for_silent_in_a_day_of_loss_and_pauses() {
    let (mut dice, mut learned, mut fixed) = (Dice(7), 0u32, 0u32);
    let ms = Duration::from_millis;
    let mut detector = Detector::new(Patience { first: ms(1_800), most: ms(9_000) });
    detector.watch([1], MS(0));
    let (mut main, mut second) = (Stream { until: 0 }, Stream { until: 0 });
    let (mut member_pauses_until, mut last, mut was_silent) = (0, 0, (false, false));
    let mut now = 0u64;
    while now < 24 * 3_600_000 {
        now += 100;
        if dice.chance(1) && dice.chance(33) {
            now += 1_000;
            detector.stood_still(ms(1_000), MS(now));
            last += 1_000;
        }
        if dice.chance(1) && dice.chance(33) {
            member_pauses_until = now + 1_000;
        }
        let quiet = detector.quiet_for(1, MS(now)).unwrap_or_default();
        let asked_back = quiet * 2 >= detector.patience(MS(now));
        let mut heard = main.answers(now, &mut dice);
        heard |= asked_back && second.answers(now, &mut dice);
        if heard && now >= member_pauses_until {
            detector.heard(1, MS(now));
            last = now;
        }
        let is_silent = (detector.silent(MS(now)).count() > 0, now - last >= 1_800);
        learned += u32::from(is_silent.0 && !was_silent.0);
        fixed += u32::from(is_silent.1 && !was_silent.1);
        was_silent = is_silent;
    }
    assert_eq!(learned, 0);
    assert!(fixed > 500, "{fixed}: the network is too good to show anything");
}
