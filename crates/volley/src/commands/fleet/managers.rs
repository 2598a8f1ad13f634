//! `volley managers`: who keeps the ledger of a cluster, letting one in, taking one out.

use std::time::{Duration, Instant};

use ::fleet::client::{FleetClient, ManagerStep};
use ::fleet::wire::proto::{LedgerMember, Limits, ManagersReply};
use report::ExitCode;
use report::format;
use serde_json::{Value, json};

use super::{EnrolmentService, one_node, run, tables};
use crate::cli::{ManagersArgs, ManagersChange};
use crate::failure::{Failure, told};
use crate::print;

pub fn managers(args: &ManagersArgs) -> ExitCode {
    told(run(async {
        let door = EnrolmentService::open(&args.at)?;
        let client = door.connect().await?;
        let change = |step: ManagerStep| change(&door, &client, step);
        match &args.change {
            None => {
                let known = client.managers().await.map_err(|error| door.explain(&error))?;
                match args.json {
                    true => print::line(&as_json(&known).to_string()),
                    false => print::out(&table(&known)),
                }
            }
            Some(ManagersChange::Add { address }) => {
                let node = change(ManagerStep::Admit { address: address.to_string() }).await?;
                say(args.json, &node, "learns", "reads the ledger; it votes when it has caught up");
                change(ManagerStep::Promote { node: node.clone() }).await?;
                say(args.json, &node, "votes", "votes");
            }
            Some(ManagersChange::Limits { lease, keep_jobs, retries }) => {
                let millis = |time: &Option<Duration>| {
                    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
                };
                let (lease_ms, keep_jobs_ms) = (millis(lease), millis(keep_jobs));
                if lease_ms.is_some() || keep_jobs_ms.is_some() || retries.is_some() {
                    let retries = *retries;
                    change(ManagerStep::Limits { lease_ms, keep_jobs_ms, retries }).await?;
                }
                let known = client.managers().await.map_err(|error| door.explain(&error))?;
                let limits = known.limits.unwrap_or_default();
                match args.json {
                    true => print::line(&limits_json(&limits).to_string()),
                    false => print::out(&limits_text(&limits)),
                }
            }
            // The quorum cannot be given away here: a manager that runs is refused, and without the vote of one that is
            // gone the others need no more than before. `drain` is what ends one that runs.
            Some(ManagersChange::Remove { node }) => {
                let known = client.managers().await.map_err(|error| door.explain(&error))?;
                let node = one_of(&known, node)?;
                change(ManagerStep::Remove { node: node.clone() }).await?;
                say(args.json, &node, "removed", "is no member any more");
            }
        }
        Ok(ExitCode::Passed)
    }))
}

fn limits_json(limits: &Limits) -> Value {
    let Limits { lease_ms, keep_jobs_ms, retries } = limits;
    json!({ "lease_ms": lease_ms, "keep_jobs_ms": keep_jobs_ms, "retries": retries })
}

fn limits_text(limits: &Limits) -> String {
    let time = |ms: u64| format!("{:?}", Duration::from_millis(ms));
    format!(
        "lease      {}   of attempts that are started from now on\nkeep-jobs  {}   for which ended jobs are known\n\
         retries    {}   of a lost shard\n",
        time(limits.lease_ms),
        time(limits.keep_jobs_ms),
        limits.retries
    )
}

async fn change(
    door: &EnrolmentService,
    client: &FleetClient,
    step: ManagerStep,
) -> Result<String, Failure> {
    client.change_managers(&step).await.map_err(|error| door.explain(&error))
}

fn say(as_json: bool, node: &str, state: &str, text: &str) {
    match as_json {
        true => print::line(&json!({ "node": node, "state": state }).to_string()),
        false => print::line(&format!("manager {node} {text}")),
    }
}

fn one_of(known: &ManagersReply, wanted: &str) -> Result<String, Failure> {
    let members = known.members.iter().map(|member| (&*member.node, &*member.address));
    one_node(members, wanted, "volley managers")
}

fn is_there(member: &LedgerMember) -> bool {
    matches!(member.state.as_str(), "alive" | "suspect")
}

/// How many voters there are, how many of them are there, and how many have to be.
fn counts(known: &ManagersReply) -> (usize, usize, usize) {
    let voters: Vec<&LedgerMember> = known.members.iter().filter(|one| one.voter).collect();
    let there = voters.iter().filter(|one| is_there(one)).count();
    (voters.len(), there, voters.len() / 2 + 1)
}

/// For news of a manager that has just begun to take part.
const NEWS_WITHIN: Duration = Duration::from_secs(5);

/// Why a manager cannot be done without, if that is so. A cluster that was founded a moment ago may not know yet that
/// all of its managers take part: that is waited for; who is gone is gone.
pub async fn needed(
    door: &EnrolmentService,
    client: &FleetClient,
    node: &str,
) -> Result<Option<String>, Failure> {
    let begun = Instant::now();
    loop {
        let known = client.managers().await.map_err(|error| door.explain(&error))?;
        let why = too_few_without(&known, node);
        let is_sure = !known.members.iter().any(|one| one.voter && is_doubtful(one));
        if why.is_none() || is_sure || begun.elapsed() > NEWS_WITHIN {
            return Ok(why);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn is_doubtful(member: &LedgerMember) -> bool {
    matches!(member.state.as_str(), "waiting" | "unknown")
}

/// Why the others could decide nothing any more if this one did not run, if that is so.
fn too_few_without(known: &ManagersReply, node: &str) -> Option<String> {
    let one = known.members.iter().find(|member| member.node == node && member.voter)?;
    let (voters, there, needed) = counts(known);
    let left = there - usize::from(is_there(one));
    (is_there(one) && left < needed).then(|| {
        format!(
            "without it {left} of {voters} voters would be there, and {needed} are needed: no job could go on"
        )
    })
}

/// A ledger is found one port above its manager.
fn manager_at(ledger: &str) -> Option<String> {
    let (host, port) = ledger.rsplit_once(':')?;
    Some(format!("{host}:{}", port.parse::<u16>().ok()?.checked_sub(1)?))
}

fn table(known: &ManagersReply) -> String {
    if known.members.is_empty() {
        return "this manager belongs to no group yet: it waits for the others of --peers, or to be let in \
                (`volley managers add` at one that does)\n"
            .to_owned();
    }
    let row = |member: &LedgerMember| {
        let mut state = member.state.clone();
        if member.node == known.leader {
            state += ", leads";
        }
        let role = if member.voter { "voter" } else { "learner" };
        [member.node.clone(), format::clean(&member.address), role.to_owned(), state]
    };
    let rows: Vec<[String; 4]> = known.members.iter().map(row).collect();
    let mut text = tables::table(["manager", "ledger at", "role", "state"], &rows);
    let (voters, there, majority) = counts(known);
    text += &match there.checked_sub(majority) {
        None => format!(
            "\n{there} of {voters} voters are there, and {majority} are needed: jobs wait until more are back\n"
        ),
        Some(0) => format!("\n{there} of {voters} voters are there: none of them may be lost\n"),
        Some(spare) => {
            format!("\n{there} of {voters} voters are there: {spare} of them may be lost\n")
        }
    };
    for member in known.members.iter().filter(|member| member.state == "waiting") {
        let Some(manager) = manager_at(&member.address) else { continue };
        text += &format!(
            "{} runs, and has no part in the ledger yet; if that stays so, its log says why, and `volley managers add \
             {}` lets it in again\n",
            member.node,
            format::clean(&manager)
        );
    }
    if known.changing {
        text += "a change of the members is under way\n";
    }
    text
}

fn as_json(known: &ManagersReply) -> Value {
    let member = |member: &LedgerMember| {
        json!({
            "node": member.node, "address": member.address, "voter": member.voter, "state": member.state,
            "leads": member.node == known.leader,
        })
    };
    let (voters, there, majority) = counts(known);
    json!({
        "members": known.members.iter().map(member).collect::<Vec<_>>(),
        "leader": (!known.leader.is_empty()).then_some(&known.leader), "term": known.term,
        "changing": known.changing, "applied": known.applied, "voters": voters, "there": there, "majority": majority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: &str, voter: bool, state: &str) -> LedgerMember {
        let address = format!("{node}.example:7501");
        LedgerMember { node: node.to_owned(), address, voter, state: state.to_owned() }
    }

    fn group(members: Vec<LedgerMember>) -> ManagersReply {
        ManagersReply {
            members,
            leader: "a1".to_owned(),
            term: 7,
            changing: false,
            applied: 9,
            limits: None,
        }
    }

    #[test]
    fn the_quorum_is_not_given_away_by_a_drain() {
        let three = |states: [&str; 3]| {
            let [a, b, c] = states;
            group(vec![member("a1", true, a), member("b2", true, b), member("c3", true, c)])
        };
        assert_eq!(too_few_without(&three(["alive"; 3]), "a1"), None);
        let two = three(["alive", "alive", "dead"]);
        let why = too_few_without(&two, "a1").unwrap();
        assert!(why.contains("1 of 3 voters would be there, and 2 are needed"), "{why}");
        assert_eq!(too_few_without(&two, "c3"), None, "it is gone anyway");
        let alone = group(vec![member("a1", true, "alive")]);
        assert!(too_few_without(&alone, "a1").is_some());
        assert_eq!(too_few_without(&alone, "w9"), None, "a worker has no vote");
    }

    #[test]
    fn the_table_says_how_many_may_be_lost() {
        let three = |states: [&str; 3]| {
            let [a, b, c] = states;
            table(&group(vec![member("a1", true, a), member("b2", true, b), member("c3", true, c)]))
        };
        assert!(three(["alive"; 3]).contains("3 of 3 voters are there: 1 of them may be lost"));
        assert!(three(["alive", "alive", "dead"]).contains("none of them may be lost"));
        assert!(three(["alive", "dead", "left"]).contains("2 are needed: jobs wait"));
        assert!(three(["alive"; 3]).contains("alive, leads"));
        let waiting = three(["alive", "alive", "waiting"]);
        assert!(waiting.contains("2 of 3 voters are there: none of them may be lost"), "{waiting}");
        assert!(
            waiting.contains("c3 runs") && waiting.contains("managers add c3.example:7500`"),
            "{waiting}"
        );
        let mut learner = group(vec![member("a1", true, "alive"), member("b2", false, "alive")]);
        learner.changing = true;
        let text = table(&learner);
        assert!(text.contains("1 of 1 voters") && text.contains("learner"), "{text}");
        assert!(text.contains("under way"), "{text}");
        assert!(table(&ManagersReply::default()).contains("no group yet"));
    }

    #[test]
    fn a_member_is_named_by_its_beginning_or_address() {
        let known = group(vec![
            member("a1", true, "alive"),
            member("a2", true, "dead"),
            member("b", true, "x"),
        ]);
        let name = |wanted: &str| one_of(&known, wanted);
        assert_eq!(name("B"), Ok("b".to_owned()));
        assert_eq!(name("a2.example:7501"), Ok("a2".to_owned()));
        assert!(name("a").unwrap_err().message.contains("several: a1, a2"));
        assert!(name("").unwrap_err().message.contains("no node"));
    }
}
