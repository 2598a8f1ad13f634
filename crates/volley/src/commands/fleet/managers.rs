//! `volley managers`: who keeps the ledger of a cluster, letting one in, taking one out.

use std::time::{Duration, Instant};

use ::fleet::client::{FleetClient, ManagerStep};
use ::fleet::wire::proto::{LedgerMember, Limits, ManagersReply, NodeState};
use report::ExitCode;
use report::format;
use serde_json::{Value, json};

use super::voters::{Seen, manager_at};
use super::{ClusterAccess, one_node, run, tables};
use crate::cli::{ManagersArgs, ManagersChange};
use crate::failure::{Failure, told};
use crate::print;

pub fn managers(args: &ManagersArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let change = |step: ManagerStep| change(&access, &client, step);
        match &args.change {
            None => {
                let seen = Seen::look(&access, &client).await?;
                match args.json {
                    true => print::line(&as_json(&seen).to_string()),
                    false => print::out(&table(&seen)),
                }
                return Ok(if seen.can_decide() { ExitCode::Passed } else { ExitCode::Failed });
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
                let known = client.managers().await.map_err(|error| access.explain(&error))?;
                let limits = known.limits.unwrap_or_default();
                match args.json {
                    true => print::line(&limits_json(&limits).to_string()),
                    false => print::out(&limits_text(&limits)),
                }
            }
            // The quorum cannot be given away here: a manager that runs is refused, and without the
            // vote of one that is gone the others need no more than before. `drain` is what ends
            // one that runs.
            Some(ManagersChange::Remove { node }) => {
                let known = client.managers().await.map_err(|error| access.explain(&error))?;
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
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];
    let time = |ms: u64| match units.iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{:?}", Duration::from_millis(ms)),
    };
    format!(
        "lease      {}   of attempts that are started from now on\nkeep-jobs  {}   for which ended jobs are known\n\
         retries    {}   of a lost shard\n",
        time(limits.lease_ms),
        time(limits.keep_jobs_ms),
        limits.retries
    )
}

async fn change(
    access: &ClusterAccess,
    client: &FleetClient,
    step: ManagerStep,
) -> Result<String, Failure> {
    client.change_managers(&step).await.map_err(|error| access.explain(&error))
}

fn say(as_json: bool, node: &str, state: &str, text: &str) {
    match as_json {
        true => print::line(&json!({ "node": node, "state": state }).to_string()),
        false => print::line(&format!("manager {node} {text}")),
    }
}

fn one_of(known: &ManagersReply, wanted: &str) -> Result<String, Failure> {
    // By the address of its ledger, which is listed, and by its own, which `volley status` shows.
    let own = known.members.iter().filter_map(|one| Some((&*one.node, manager_at(&one.address)?)));
    let own: Vec<(&str, String)> = own.collect();
    let members = known.members.iter().flat_map(|member| {
        let own = own.iter().filter(|(node, _)| *node == member.node);
        let own = own.map(|(node, address)| (*node, address.as_str()));
        std::iter::once((&*member.node, &*member.address)).chain(own)
    });
    one_node(members, wanted, "volley managers")
}

/// For news of a manager that has just begun to take part.
const NEWS_WITHIN: Duration = Duration::from_secs(5);

/// Why a manager cannot be done without, if that is so. A cluster that was founded a moment ago may
/// not know yet that all of its managers take part: that is waited for; who is gone is gone.
pub async fn needed(
    access: &ClusterAccess,
    client: &FleetClient,
    node: &str,
) -> Result<Option<String>, Failure> {
    let begun = Instant::now();
    loop {
        let seen = Seen::look(access, client).await?;
        let why = seen.too_few_without(node);
        let is_sure = !seen.known.members.iter().any(|one| one.voter && is_doubtful(one));
        if why.is_none() || is_sure || begun.elapsed() > NEWS_WITHIN {
            return Ok(why);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn is_doubtful(member: &LedgerMember) -> bool {
    matches!(member.state(), NodeState::Waiting | NodeState::Unspecified)
}

fn table(seen: &Seen) -> String {
    let known = &seen.known;
    if known.members.is_empty() {
        return "this manager belongs to no group yet: it waits for the others of --peers, or to be let in \
                (`volley managers add` at one that does)\n"
            .to_owned();
    }
    let row = |member: &LedgerMember| {
        let mut state = seen.state_of(member);
        if member.node == known.leader && seen.can_decide() {
            state += ", leads";
        }
        let role = if member.voter { "voter" } else { "learner" };
        [member.node.clone(), format::clean(&member.address), role.to_owned(), state]
    };
    let rows: Vec<[String; 4]> = known.members.iter().map(row).collect();
    let mut text = tables::table(["manager", "ledger at", "role", "state"], &rows);
    text += &format!("\n{}\n", seen.summary());
    for (member, why) in seen.silent() {
        let node = &member.node;
        text += &format!("{node}: {}; start this manager again on its data\n", format::clean(why));
    }
    for member in known.members.iter().filter(|member| member.state() == NodeState::Waiting) {
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

fn as_json(seen: &Seen) -> Value {
    let known = &seen.known;
    let member = |member: &LedgerMember| {
        json!({
            "node": member.node, "address": member.address, "voter": member.voter,
            "state": member.state().word(),
            "leads": member.node == known.leader, "there": seen.is_there(member),
        })
    };
    let (voters, there, majority) = seen.counts();
    json!({
        "members": known.members.iter().map(member).collect::<Vec<_>>(),
        "leader": (!known.leader.is_empty()).then_some(&known.leader), "term": known.term,
        "changing": known.changing, "applied": known.applied, "voters": voters, "there": there, "majority": majority,
        "can_decide": seen.can_decide(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::voters::Silent;
    use super::*;

    fn member(node: &str, voter: bool, state: &str) -> LedgerMember {
        let address = format!("{node}.example:7501");
        let state = NodeState::from_str_name(&format!("NODE_STATE_{}", state.to_uppercase()));
        LedgerMember { node: node.to_owned(), address, voter, state: state.unwrap().into() }
    }

    fn group(members: Vec<LedgerMember>) -> ManagersReply {
        ManagersReply {
            members,
            leader: "a1".to_owned(),
            term: 7,
            changing: false,
            applied: 9,
            node: String::new(),
            limits: None,
        }
    }

    /// Those that are alive answer, the others refuse connections.
    fn seen(known: ManagersReply) -> Seen {
        let silent = known.members.iter().filter(|one| one.state() != NodeState::Alive);
        let silent = silent.map(|one| (one.node.clone(), Silent::refused())).collect();
        Seen { known, silent, undecided: None }
    }

    fn three(states: [&str; 3]) -> Seen {
        let [a, b, c] = states;
        seen(group(vec![member("a1", true, a), member("b2", true, b), member("c3", true, c)]))
    }

    #[test]
    fn the_quorum_is_not_given_away_by_a_drain() {
        assert_eq!(three(["alive"; 3]).too_few_without("a1"), None);
        let two = three(["alive", "alive", "dead"]);
        let why = two.too_few_without("a1").unwrap();
        assert!(why.contains("1 of 3 voters would be there, and 2 are needed"), "{why}");
        assert_eq!(two.too_few_without("c3"), None, "it is gone anyway");
        let alone = seen(group(vec![member("a1", true, "alive")]));
        assert!(alone.too_few_without("a1").is_some());
        assert_eq!(alone.too_few_without("w9"), None, "a worker has no vote");
    }

    #[test]
    fn suspects_that_do_not_answer_are_not_counted_as_there() {
        let one = three(["alive", "suspect", "suspect"]);
        let text = table(&one);
        assert!(text.contains("1 of 3 voters answers, and 2 are needed: nothing can be decided"));
        assert!(text.contains("b2: Connection refused; start this manager again"), "{text}");
        assert!(!text.contains("leads"), "nobody leads without a majority: {text}");
        assert!(!one.can_decide());
        // One that is only not reached from here, and of which the others hear, is there.
        let mut two = three(["alive", "alive", "dead"]);
        two.silent.insert("b2".to_owned(), Silent::unreached());
        let text = table(&two);
        assert!(text.contains("alive, not reached from here"), "{text}");
        assert!(text.contains("2 of 3 voters are there: none of them may be lost"), "{text}");
        // All answer, and nothing goes on: that is said before numbers that sound well.
        let mut cut = three(["alive"; 3]);
        cut.undecided = Some("nobody leads".to_owned());
        let text = table(&cut);
        assert!(text.contains("3 of 3 voters answer, but nothing can be decided"), "{text}");
        assert!(text.contains("nobody leads") && !text.contains("may be lost"), "{text}");
    }

    #[test]
    fn the_table_says_how_many_may_be_lost() {
        let three = |states: [&str; 3]| table(&three(states));
        assert!(three(["alive"; 3]).contains("3 of 3 voters are there: 1 of them may be lost"));
        assert!(three(["alive", "alive", "dead"]).contains("none of them may be lost"));
        assert!(
            three(["alive", "dead", "left"])
                .contains("2 are needed: nothing can be decided, and jobs wait")
        );
        assert!(three(["alive"; 3]).contains("alive, leads"));
        let waiting = three(["alive", "alive", "waiting"]);
        assert!(waiting.contains("2 of 3 voters are there: none of them may be lost"), "{waiting}");
        assert!(
            waiting.contains("c3 runs") && waiting.contains("managers add c3.example:7500`"),
            "{waiting}"
        );
        let mut learner = group(vec![member("a1", true, "alive"), member("b2", false, "alive")]);
        learner.changing = true;
        let text = table(&seen(learner));
        assert!(text.contains("1 of 1 voters") && text.contains("learner"), "{text}");
        assert!(text.contains("under way"), "{text}");
        assert!(table(&seen(ManagersReply::default())).contains("no group yet"));
    }

    #[test]
    fn a_member_is_named_by_its_beginning_or_address() {
        let known = group(vec![
            member("a1", true, "alive"),
            member("a2", true, "dead"),
            member("b", true, "left"),
        ]);
        let name = |wanted: &str| one_of(&known, wanted);
        assert_eq!(name("B"), Ok("b".to_owned()));
        assert_eq!(name("a2.example:7501"), Ok("a2".to_owned()));
        assert!(name("a").unwrap_err().message.contains("several: a1, a2"));
        assert!(name("").unwrap_err().message.contains("no node"));
    }
}
