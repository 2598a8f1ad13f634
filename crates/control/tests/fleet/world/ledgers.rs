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
        // The ledger's time follows; the session's window is kept small by settling everything but the last.
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

    pub fn record(&self) -> &ledger::Job {
        self.state.job(self.job).expect("the job is there")
    }

    pub fn cancel(&mut self) {
        let reason = "enough".to_owned();
        self.run(Command::CancelJob { job: self.job, reason, requestor: "eve".to_owned() });
        self.event(Event::CancelSeen { reason: "enough".to_owned() });
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
            seed: self.dice.roll(),
            workers: self.hints(),
        };
        let (mut owner, effects) = Owner::adopt(adoption, self.now).expect("a good shape");
        owner.recall(&self.memory);
        self.owner = Some(owner);
        self.carry_out(effects);
        // What was applied is taken to be in a checkpoint.
        for ((shard, attempt), counters) in self.applied.clone() {
            let heard = self.applied_at.get(&(shard, attempt)).copied();
            self.give(Event::Progress { shard, attempt, counters, heard });
        }
        let turn = Event::Turn(self.turn);
        self.give(turn);
        epoch
    }
}
