//! Who may change what is there: end or steer a job, drain a node, change the managers.
//!
//! A job belongs to the client that submitted it; its certificate says who that is. Where operators
//! are named (`--operator`), they and the job's own client may change it, and only they drain nodes
//! and change the managers. Where nobody is named, every client of the cluster may: a certificate
//! is then the right. Either way who did it is kept: a cancel in the ledger, the rest in this
//! manager's log.

use std::collections::BTreeSet;

use fence::{JobId, NodeId};
use tonic::Status;
use trust::{Identity, Role};

use super::Service;

/// The tenant of the ledger: who submitted a job.
pub(super) fn tenant(who: Option<&Identity>) -> String {
    // Nobody has a certificate in a simulation.
    who.map_or_else(|| "nobody".to_owned(), |who| who.node.to_string())
}

/// Whether `who` may change something of `owner`'s; None: of nobody's, such as a node.
fn may(operators: &BTreeSet<NodeId>, who: &Identity, owner: Option<&str>) -> bool {
    match who.role {
        // A member of the group passes on what it has looked at itself.
        Role::Manager => true,
        Role::Client if operators.contains(&who.node) => true,
        // A gate acts for its clients. As long as it does not say for which one, it has no more
        // rights than any client: what was submitted through it may be changed through it.
        Role::Client | Role::Gate => {
            operators.is_empty() || owner.is_some_and(|owner| owner == who.node.to_string())
        }
        Role::Worker | Role::Recruit => false,
    }
}

impl Service {
    /// Refuses those who may not change a job.
    pub(super) async fn may_change(
        &self,
        who: Option<&Identity>,
        job: JobId,
        what: &str,
    ) -> Result<(), Status> {
        let owner = self.job(job, |job, _| job.tenant.clone()).await?;
        let Some(who) = who else { return Ok(()) };
        if may(&self.0.operators, who, Some(&owner)) {
            if who.role != Role::Manager {
                tracing::info!(target: "steering", "{who}: {what} job {job}");
            }
            return Ok(());
        }
        tracing::warn!(target: "steering", "refused {who}: {what} job {job} of client {owner}");
        Err(Status::permission_denied(format!(
            "job {job} was submitted by client {owner}, and you are {}: only that client and operators may {what} it \
             (a manager's --operator names them)",
            who.node
        )))
    }

    /// Refuses those who may not change the fleet itself.
    pub(super) fn may_operate(&self, who: Option<&Identity>, what: &str) -> Result<(), Status> {
        let Some(who) = who else { return Ok(()) };
        if may(&self.0.operators, who, None) {
            tracing::info!(target: "steering", "{who}: {what}");
            return Ok(());
        }
        tracing::warn!(target: "steering", "refused {who}: {what}");
        Err(Status::permission_denied(format!(
            "only operators may {what}, and {} {} is none (a manager's --operator names them)",
            who.role, who.node
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(role: Role, node: u128) -> Identity {
        let text = String::from;
        Identity {
            role,
            cluster: text("shop"),
            environment: text("dev"),
            datacenter: text("fra1"),
            node: NodeId(node),
        }
    }

    #[test]
    fn a_job_is_changed_by_its_client_and_by_operators() {
        let (eve, ada, ops) = (1, 2, 9);
        let named = BTreeSet::from([NodeId(ops)]);
        let of_eve = NodeId(eve).to_string();
        let cases = [
            // Named operators, who asks, of whose, may.
            (&named, Role::Client, eve, Some(&of_eve), true),
            (&named, Role::Client, ada, Some(&of_eve), false),
            (&named, Role::Client, ops, Some(&of_eve), true),
            (&named, Role::Client, ops, None, true),
            (&named, Role::Client, eve, None, false),
            // It has let somebody in already.
            (&named, Role::Manager, 30, Some(&of_eve), true),
            // A gate has no rights of its own, not even under an operator's number.
            (&named, Role::Gate, 40, Some(&of_eve), false),
            (&named, Role::Gate, 40, None, false),
            (&named, Role::Gate, ops, None, false),
            (&named, Role::Gate, eve, Some(&of_eve), true),
            (&BTreeSet::new(), Role::Gate, 40, Some(&of_eve), true),
            (&named, Role::Worker, eve, Some(&of_eve), false),
            // Nobody is named: the certificate is the right.
            (&BTreeSet::new(), Role::Client, ada, Some(&of_eve), true),
            (&BTreeSet::new(), Role::Client, ada, None, true),
        ];
        for (operators, role, node, owner, expected) in cases {
            let who = identity(role, node);
            let found = may(operators, &who, owner.map(String::as_str));
            assert_eq!(found, expected, "{who} of {owner:?} with {operators:?}");
        }
    }
}
