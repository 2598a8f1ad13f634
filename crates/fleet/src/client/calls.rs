//! How a question finds a manager that can answer it.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use node::network::{ChannelTiming, ConnectError, channel_on};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};
use trust::{Expected, Role};

use super::error::{Verdict, in_a_line, judge};
use super::{Failure, FleetClient, FleetError, Jobs, Last, Why};
use crate::wire;
use crate::wire::proto::jobs_client::JobsClient;

/// Between two rounds over all managers; doubled up to the last.
pub(super) const PAUSE_FIRST: Duration = Duration::from_millis(100);
pub(super) const PAUSE_LAST: Duration = Duration::from_secs(1);

impl FleetClient {
    /// Puts a question to one manager after the other, for as long as `patience` allows, and once
    /// in any case. The answer, and whose it is.
    pub(super) async fn ask<A, F>(
        &self,
        patience: Duration,
        question: impl Fn(Jobs) -> F,
    ) -> Result<(String, A), FleetError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.ask_within(patience, self.deadline, question).await
    }

    pub(super) async fn ask_within<A, F>(
        &self,
        patience: Duration,
        deadline: Duration,
        question: impl Fn(Jobs) -> F,
    ) -> Result<(String, A), FleetError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let begun = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let mut failures = Vec::new();
            for number in self.in_turn() {
                match self.ask_one(number, deadline, &question).await {
                    Ok(answer) => return Ok((self.managers[number].clone(), answer)),
                    Err(Verdict::Elsewhere(why)) => failures.push(self.failure(number, why)),
                    Err(Verdict::Final(code, message)) => {
                        let address = self.managers[number].clone();
                        return Err(FleetError::Refused { address, code, message });
                    }
                }
            }
            let tried_for = begun.elapsed();
            if failures.iter().all(Failure::is_lasting) || tried_for + pause > patience {
                return Err(FleetError::Nobody { failures, tried_for });
            }
            if !failures.is_empty() {
                self.tell(&format!("{}; trying again", in_a_line(&failures)));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    pub(super) async fn ask_one<A, F>(
        &self,
        number: usize,
        deadline: Duration,
        question: impl Fn(Jobs) -> F,
    ) -> Result<A, Verdict>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let channel = self.channel(number).await.map_err(Verdict::Elsewhere)?;
        let asked = timeout(deadline, question(jobs_on(channel))).await;
        match asked {
            Ok(Ok(answer)) => {
                self.lock().manager = number;
                Ok(answer.into_inner())
            }
            Ok(Err(status)) => {
                let verdict = judge(&status);
                if !matches!(verdict, Verdict::Final(..)) {
                    self.leave(number);
                }
                Err(verdict)
            }
            Err(_) => {
                self.leave(number);
                Err(Verdict::Elsewhere(Why::TimedOut { after: deadline }))
            }
        }
    }

    /// All managers, from the one that answered last.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.lock().manager, self.managers.len());
        (first..first + count).map(move |number| number % count)
    }

    pub(super) async fn channel(&self, number: usize) -> Result<Channel, Why> {
        let known = self.lock().channel.clone();
        if let Some((_, channel)) = known.filter(|(at, _)| *at == number) {
            return Ok(channel);
        }
        let address = &self.managers[number];
        let expected = Expected { role: Role::Manager, node: None };
        // A watch has to notice soon that the other end is gone.
        let timing = ChannelTiming { connect: self.deadline, ..ChannelTiming::paced(0.2) };
        let connecting = async {
            let connection = self.network.connect(address, expected).await?;
            channel_on(connection, &timing).await.map_err(|error| ConnectError::Io {
                address: address.clone(),
                error: std::io::Error::other(error),
            })
        };
        match timeout(self.deadline, connecting).await {
            Ok(Ok(channel)) => {
                let mut last = self.lock();
                (last.manager, last.channel) = (number, Some((number, channel.clone())));
                Ok(channel)
            }
            Ok(Err(error)) => Err(Why::Connect(error)),
            Err(_) => Err(Why::TimedOut { after: self.deadline }),
        }
    }

    /// The next question goes to somebody else first, and comes back here on a new connection.
    pub(super) fn leave(&self, number: usize) {
        let mut last = self.lock();
        if last.channel.as_ref().is_some_and(|(at, _)| *at == number) {
            last.channel = None;
        }
        if last.manager == number {
            last.manager = (number + 1) % self.managers.len();
        }
    }

    pub(super) fn failure(&self, number: usize, why: Why) -> Failure {
        Failure { address: self.managers[number].clone(), why }
    }

    pub(super) fn tell(&self, text: &str) {
        if let Some(notice) = &self.notice {
            notice(text);
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn jobs_on(channel: Channel) -> Jobs {
    JobsClient::new(channel)
        .max_decoding_message_size(wire::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(wire::MESSAGE_BYTES_MAX)
}
