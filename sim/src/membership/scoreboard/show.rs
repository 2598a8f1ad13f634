//! The figures as text, for people. Experiments that were not made are left out.

use std::fmt;

use super::{Report, StallRow, Switch, percent};
use crate::membership::figures::{Cost, percentile};
use crate::membership::world::Fault;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "membership, figures of seeds {:?}", self.seeds)?;
        self.show_stalls(f)?;
        self.show_detections(f)?;
        self.show_heals(f)?;
        self.show_losses(f)?;
        self.show_costs(f)?;
        for pause in &self.pauses {
            writeln!(
                f,
                "\npause of twice the longest time-out: {} deaths declared before the socket was read, \
                 {} false ones after, whole after {:?} periods",
                pause.before_drained, pause.after_drained, pause.converged
            )?;
        }
        let violations = self.violations();
        for violation in &violations {
            writeln!(f, "NOT MET: {violation}")?;
        }
        if violations.is_empty() {
            writeln!(f, "\nall met")?;
        }
        Ok(())
    }
}

impl Report {
    fn show_detections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detections.is_empty() {
            return Ok(());
        }
        writeln!(f, "\ndetection of a crash, in probe periods")?;
        writeln!(
            f,
            "      n alpha lifeguard deaths   first p50   p99   all p50   p99   formula p50   p99"
        )?;
        for d in &self.detections {
            writeln!(
                f,
                "  {:>5} {:>5} {:>9} {:>6}   {:>9.1} {:>5.1}   {:>7.1} {:>5.1}   {:>11.1} {:>5.1}",
                d.members,
                d.alpha,
                if d.lifeguard { "on" } else { "off" },
                d.all.len(),
                percentile(&d.first, 0.5),
                percentile(&d.first, 0.99),
                percentile(&d.all, 0.5),
                percentile(&d.all, 0.99),
                d.predicted_p50,
                d.predicted_p99
            )?;
        }
        for (d, share, bound) in self.against_baseline() {
            let (n, alpha) = (d.members, d.alpha);
            writeln!(
                f,
                "  n {n} alpha {alpha}: median {share:.0} % of the baseline (at most {bound} %)"
            )?;
        }
        Ok(())
    }

    fn show_heals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.heals.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nsplit in halves, and healed")?;
        for heal in &self.heals {
            let merged =
                heal.merged.map_or("not merged".into(), |m| format!("merged after {m:.1}"));
            let (n, buried, bound) = (heal.members, heal.buried, heal.bound);
            writeln!(f, "  n {n:>4}: {buried} burials, {merged} periods (at most {bound:.0})")?;
        }
        Ok(())
    }

    fn show_losses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.losses.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nloss")?;
        for l in &self.losses {
            writeln!(
                f,
                "  {:>2.0} %, {:>4.1} h, n {}: {} false deaths, {:.2} suspicions per member-hour, \
                 whole after {:?} periods",
                l.loss * 100.0,
                l.hours,
                l.members,
                l.false_deaths,
                l.suspicions,
                l.converged
            )?;
        }
        Ok(())
    }

    fn show_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.costs.is_empty() {
            return Ok(());
        }
        writeln!(f, "\ncost per member and second")?;
        writeln!(f, "      n  datagrams  bytes  exchange bytes   cpu us")?;
        for c in &self.costs {
            let Cost { members, datagrams, bytes, exchanged_bytes, cpu_us, .. } = c;
            writeln!(
                f,
                "  {members:>5}  {datagrams:>9.2}  {bytes:>5.0}  {exchanged_bytes:>14.1}   {cpu_us:>6.1}"
            )?;
        }
        Ok(())
    }

    fn show_stalls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stalls.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nstalled members: deaths of healthy members, without and with Lifeguard (alpha 5)"
        )?;
        writeln!(
            f,
            "                     by anybody            by healthy      messages  bytes   alpha 4   of the stalled"
        )?;
        let mut keys: Vec<(Fault, usize)> =
            self.stalls.iter().map(|row| (row.fault, row.stalled)).collect();
        keys.dedup();
        for (fault, stalled) in keys {
            let choose = |row: &StallRow| row.fault == fault && row.stalled == stalled;
            self.show_row(f, &format!("{} {stalled}", fault.name()), choose)?;
        }
        self.show_row(f, "all", |_| true)
    }

    fn show_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        choose: impl Fn(&StallRow) -> bool + Copy,
    ) -> fmt::Result {
        let off = self.total(Switch::Off, choose);
        let on = self.total(Switch::On, choose);
        let alpha4 = self.total(Switch::OnAlpha4, choose);
        writeln!(
            f,
            "  {name:<12} {:>6} -> {:>4} ({:5.2} %)  {:>5} -> {:>3} ({:5.2} %)  {:5.1} %  {:5.1} %   \
             {:5.2} %   {} -> {}",
            off.false_deaths,
            on.false_deaths,
            percent(on.false_deaths, off.false_deaths),
            off.at_healthy,
            on.at_healthy,
            percent(on.at_healthy, off.at_healthy),
            percent(on.datagrams, off.datagrams),
            percent(on.bytes, off.bytes),
            percent(alpha4.false_deaths, off.false_deaths),
            off.of_stalled,
            on.of_stalled,
        )
    }
}
