//! `volley debug ledger status` and `members`: what a member says, and who belongs to its group.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use fence::NodeId;
use ledger::client::{Client, MemberView};
use ledger::{Change, Changed, TcpTransport};
use report::ExitCode;
use serde_json::json;

use super::run;
use crate::cli::{MembersArgs, MembersChange, StatusArgs};
use crate::failure::Failure;
use crate::print;

const PATIENCE: Duration = Duration::from_secs(3);
/// A learner has to catch up before it votes.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);

pub fn status(args: &StatusArgs) -> ExitCode {
    run(async {
        let client = Client::new(Arc::new(TcpTransport));
        let view = client
            .status(&args.member.to_string(), PATIENCE)
            .await
            .map_err(|error| Failure::failed(error).help("is a member running there?"))?;
        let others = ask_others(&client, &view).await;
        if args.json {
            print::line(&json_of(&view, &others).to_string());
        } else {
            print::out(&text_of(&view, &others));
        }
        Ok(if view.failed.is_some() || view.leader.is_none() {
            ExitCode::Failed
        } else {
            ExitCode::Passed
        })
    })
}

/// How far each member has come, by its own word; `None` if it does not answer.
async fn ask_others(client: &Client, view: &MemberView) -> Vec<Option<u64>> {
    let mut applied = Vec::new();
    for member in &view.members {
        applied.push(if member.node == view.node {
            Some(view.applied)
        } else {
            let asked = client.status(&member.address, Duration::from_secs(1)).await;
            // Somebody else may listen there by now.
            asked.ok().filter(|other| other.node == member.node).map(|other| other.applied)
        });
    }
    applied
}

fn text_of(view: &MemberView, others: &[Option<u64>]) -> String {
    let mut text = format!("member   {} (start {}, disk {})\n", view.node, view.boot, view.disk);
    match view.group {
        Some(group) => writeln!(text, "group    {group}, term {}", view.term),
        None => writeln!(text, "group    none yet"),
    }
    .and_then(|()| match &view.leader {
        Some((node, _)) if *node == view.node && view.leads => writeln!(text, "leader   this one"),
        Some((node, _)) if *node == view.node => {
            writeln!(text, "leader   this one, cut off from the majority")
        }
        Some((node, address)) => writeln!(text, "leader   {node} at {address}"),
        None => writeln!(text, "leader   none"),
    })
    .and_then(|()| writeln!(text, "entries  {} applied of {}", view.applied, view.last_log))
    .unwrap_or_default();
    if let Some(why) = &view.failed {
        text.push_str(&format!("stopped  {why}\n"));
    }
    if !view.members.is_empty() {
        text.push_str(&format!("\n{:36}  {:21}  {:7}  applied\n", "node", "address", "role"));
    }
    for (member, applied) in view.members.iter().zip(others) {
        let role = if member.voter { "voter" } else { "learner" };
        let applied = applied.map_or("no answer".to_owned(), |applied| applied.to_string());
        text.push_str(&format!(
            "{:36}  {:21}  {role:7}  {applied}\n",
            member.node.to_string(),
            member.address
        ));
    }
    text
}

fn json_of(view: &MemberView, others: &[Option<u64>]) -> serde_json::Value {
    let members: Vec<_> = view.members.iter().zip(others).map(|(member, applied)| {
        json!({
            "node": member.node.to_string(), "address": member.address, "disk": member.disk.to_string(),
            "voter": member.voter, "applied": applied,
        })
    }).collect();
    json!({
        "node": view.node.to_string(), "boot": view.boot, "disk": view.disk.to_string(),
        "group": view.group.map(|group| group.to_string()), "term": view.term,
        "leader": view.leader.as_ref().map(|(node, address)| json!({"node": node.to_string(), "address": address})),
        "leads": view.leads, "applied": view.applied, "last_log": view.last_log,
        "members": members, "failed": view.failed, "software": view.software,
    })
}

pub fn members(args: &MembersArgs) -> ExitCode {
    run(async {
        let client = Client::new(Arc::new(TcpTransport));
        let at = args.member.to_string();
        match &args.change {
            // A member with a new disk is taken in as a new one would be: it learns first.
            MembersChange::Add { address } | MembersChange::Readmit { address } => {
                let admit = Change::Admit { address: address.to_string() };
                let node = change(&client, &at, &admit).await?;
                print::line(&format!("{node} learns; it votes when it has caught up"));
                change(&client, &at, &Change::Promote { node }).await?;
                print::line(&format!("{node} votes"));
            }
            MembersChange::Remove { node } => {
                let node: NodeId =
                    node.parse().map_err(|error: fence::IdError| Failure::failed(error))?;
                change(&client, &at, &Change::Remove { node }).await?;
                print::line(&format!("{node} is no member any more"));
            }
        }
        Ok(ExitCode::Passed)
    })
}

async fn change(client: &Client, at: &str, change: &Change) -> Result<NodeId, Failure> {
    let changed = client.change_members(at, change, CHANGE_PATIENCE).await;
    match changed.map_err(Failure::failed)? {
        Changed::Done { node } => Ok(node),
        Changed::Not(why) => Err(Failure::failed(why)),
        Changed::Unknown => Err(Failure::failed("not known whether it happened").help(
            "the same command again is harmless, `volley debug ledger status` shows the members",
        )),
    }
}
