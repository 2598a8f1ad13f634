//! The ledger of a world: what is written into it, and the claim that makes an owner.

use super::*;

impl World {
    pub(super) fn proposal(&mut self, command: Command) -> Proposal {
        self.seq += 1;
        Proposal {
            request: RequestId { session: self.session, seq: self.seq },
            settled: 0,
            at: Hlc { wall_ms: self.wall(), logical: 0, node: self.session.node },
            command,
        }
    }

    fn wall(&self) -> u64 {
        u64::try_from(self.now.since(Moment::default()).as_millis()).unwrap()
    }

    pub(super) fn apply(&mut self, proposal: &Proposal) -> Reply {
        // The ledger's time follows; the session's window is kept small by settling everything but
        // the last.
        let before = self.state.clone();
        self.index += 1;
        let reply = self.state.apply(self.index, std::slice::from_ref(proposal)).remove(0);
        self.state.check().unwrap_or_else(|violation| panic!("{violation}"));
        check_step(&before, &self.state).unwrap_or_else(|violation| panic!("{violation}"));
        reply
    }

    /// A command of somebody's, applied at once.
    pub fn run(&mut self, command: Command) -> Reply {
        let proposal = self.proposal(command);
        self.apply(&proposal)
    }

    pub(super) fn advance_ledger(&mut self) {
        let led = self.now.since(self.started).saturating_sub(self.leaderless);
        let target = u64::try_from(led.as_millis()).unwrap();
        let seen_ms = self.state.now_ms();
        if target > seen_ms {
            self.run(Command::Advance { seen_ms, elapsed_ms: target - seen_ms });
        }
    }

    pub fn record(&self) -> &ledger_state::Job {
        self.state.job(self.job).expect("the job is there")
    }

    /// A cancel with the grace of the plan; the second one is a hard one. The owner sees it.
    pub fn cancel(&mut self) -> Reply {
        let grace = Some(self.manifest.grace(&self.settings));
        self.cancel_with(grace)
    }

    pub fn cancel_now(&mut self) -> Reply {
        self.cancel_with(None)
    }

    fn cancel_with(&mut self, grace: Option<Grace>) -> Reply {
        self.advance_ledger();
        self.cancels += 1;
        let (reason, requestor) = ("enough".to_owned(), "eve".to_owned());
        let nonce = [self.cancels; 16];
        let cancel = Command::CancelJob { job: self.job, reason, requestor, nonce, grace };
        let reply = self.run(cancel);
        if let Some(seen) = self.cancel_seen() {
            self.event(seen);
        }
        reply
    }

    /// What a manager tells the owner of a cancel.
    pub fn cancel_seen(&self) -> Option<Event> {
        let cancel = self.record().cancel.as_ref()?;
        let left = cancel.teardown_until_ms.saturating_sub(self.state.now_ms());
        let (reason, hard) = (cancel.reason.clone(), cancel.hard.is_some());
        Some(Event::CancelSeen { reason, hard, within: ms(left) })
    }

    // ── owners ─────────────────────────────────────────────────────────────────────────────────

    /// Claims the job for a manager in a new life, and takes it up.
    pub fn own(&mut self) -> Epoch {
        self.advance_ledger();
        self.generation += 1;
        self.session.boot = self.session.boot.next();
        self.seq = 0;
        self.run(Command::OpenSession);
        let seen = self.record().epoch;
        let claim = Command::ClaimJob { job: self.job, claimant: self.session, seen };
        let Reply::Claimed { epoch } = self.run(claim) else { panic!("not claimed") };
        let adoption = Adoption {
            job: self.state.job(self.job).unwrap(),
            epoch,
            now_ms: self.state.now_ms(),
            manifest: self.manifest.clone(),
            settings: self.settings,
            seed: self.random.draw(),
            workers: if self.heard_of_nobody { Vec::new() } else { self.hints() },
        };
        let (mut owner, effects) = Owner::adopt(adoption, self.now).expect("a good shape");
        owner.recall(&self.memory);
        self.owner = Some(owner);
        self.carry_out(effects);
        // What was applied is taken to be in a checkpoint.
        for ((shard, attempt), counters) in self.applied.clone() {
            let told = self.applied_at.get(&(shard, attempt)).copied().unwrap_or_default();
            self.give(Event::Progress { shard, attempt, counters, told });
        }
        let turn = Event::Turn(self.turn);
        self.give(turn);
        epoch
    }
}
