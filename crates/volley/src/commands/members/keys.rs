//! `volley debug members keys ...`: a rotation of the gossip key, over all live members.
//!
//! Each step is done at every live member, and a step that would make two of them fail to
//! understand each other is refused before anything is changed. Every step can be repeated.

use std::collections::BTreeMap;

use membership::envelope::KeyId;
use node::client::{ClientError, KeyAction, KeyList, MemberRow, MembersClient};
use node::secret::GossipKey;
use report::ExitCode;
use report::format;
use serde_json::json;
use trust::Role;

use super::ClusterAccess;
use crate::cli::{KeysArgs, KeysChange, MemberPlace};
use crate::failure::Failure;
use crate::print;

/// What one member said.
struct Answer {
    row: MemberRow,
    said: Result<KeyList, ClientError>,
}

impl Answer {
    fn name(&self) -> String {
        let id: String = self.row.node.to_string().chars().take(8).collect();
        format!("{} {id} at {}", self.row.role, self.row.address)
    }
}

pub async fn keys(
    place: &MemberPlace,
    args: &KeysArgs,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let access = ClusterAccess::open(place)?;
    let client =
        access.connect(&access.address, place.role).await.map_err(|e| access.explain(&e))?;
    let snapshot = client.members().await.map_err(|error| access.explain(&error))?;
    let mut live: Vec<MemberRow> =
        snapshot.members.into_iter().filter(|row| row.is_self || row.state.is_live()).collect();
    live.sort_by_key(|row| (row.role, row.address));
    let ask = async |action: &KeyAction| {
        let mut answers = Vec::new();
        for row in &live {
            let said = ask_one(&access, &client, row, action.clone()).await;
            answers.push(Answer { row: row.clone(), said });
        }
        answers
    };
    let answers = match &args.change {
        KeysChange::List => ask(&KeyAction::List).await,
        KeysChange::Install { file } => {
            let key = GossipKey::load(file).map_err(Failure::failed)?;
            ask(&KeyAction::Install(key)).await
        }
        KeysChange::Use { key } => {
            let key = KeyId(*key);
            all_agree(&ask(&KeyAction::List).await, |ring| {
                let has = ring.keys.contains(&key);
                (!has).then(|| format!("does not have key {key}: `keys install` it first"))
            })?;
            ask(&KeyAction::Use(key)).await
        }
        KeysChange::Remove { key } => {
            let key = KeyId(*key);
            all_agree(&ask(&KeyAction::List).await, |ring| {
                let seals = ring.sealing == key;
                seals.then(|| format!("seals with key {key}: `keys use` another one first"))
            })?;
            // Where it is gone already there is nothing to do, so that the step can be repeated.
            let before = ask(&KeyAction::List).await;
            let mut answers = Vec::new();
            for answer in before {
                let there = answer.said.as_ref().is_ok_and(|ring| ring.keys.contains(&key));
                let said = match there {
                    true => ask_one(&access, &client, &answer.row, KeyAction::Remove(key)).await,
                    false => answer.said,
                };
                answers.push(Answer { row: answer.row, said });
            }
            answers
        }
    };
    let failed = answers.iter().filter(|answer| answer.said.is_err()).count();
    if as_json {
        print::line(&json_of(&answers).to_string());
    } else {
        print::out(&text_of(&answers, &args.change));
    }
    Ok(if failed == 0 { ExitCode::Passed } else { ExitCode::Failed })
}

/// Workers are asked through the member that was asked first: an operator cannot reach them.
async fn ask_one(
    access: &ClusterAccess,
    first: &MembersClient,
    row: &MemberRow,
    action: KeyAction,
) -> Result<KeyList, ClientError> {
    match row.role {
        _ if row.is_self => first.keys(action).await,
        Role::Worker => first.keys_of_worker(row.node, action).await,
        role => match access.connect(&row.address.to_string(), role).await {
            Ok(client) => client.keys(action).await,
            Err(error) => Err(error),
        },
    }
}

/// Refuses a step that is not safe at every live member.
fn all_agree(
    answers: &[Answer],
    against: impl Fn(&KeyList) -> Option<String>,
) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for answer in answers {
        let problem = match &answer.said {
            Ok(ring) => against(ring),
            Err(why) => Some(format!("does not answer: {why}")),
        };
        problems.extend(problem.map(|problem| format!("  {} {problem}", answer.name())));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "nothing was changed, because members would no longer understand each other:\n{}",
        problems.join("\n")
    )))
}

/// For each key: at how many members it opens, and at how many it seals.
fn count(answers: &[Answer]) -> BTreeMap<KeyId, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for ring in answers.iter().filter_map(|answer| answer.said.as_ref().ok()) {
        for key in &ring.keys {
            let (opens, seals): &mut (u64, u64) = counts.entry(*key).or_default();
            *opens += 1;
            *seals += u64::from(ring.sealing == *key);
        }
    }
    counts
}

fn text_of(answers: &[Answer], change: &KeysChange) -> String {
    let mut text = String::new();
    let all = answers.len();
    text.push_str("key       opens at  seals at\n");
    for (key, (opens, seals)) in count(answers) {
        text.push_str(&format!(
            "{key:8}  {opens:>3} of {all:<2} {seals:>3} of {all}\n",
            key = key.to_string()
        ));
    }
    for answer in answers {
        if let Err(why) = &answer.said {
            text.push_str(&format!("NOT DONE  {}: {why}\n", answer.name()));
        }
    }
    let failed = answers.iter().any(|answer| answer.said.is_err());
    let next = match change {
        _ if failed => "the same command again is harmless; repeat it when all answer".to_owned(),
        KeysChange::List => return text,
        KeysChange::Install { .. } => "next: volley debug members keys use KEY".to_owned(),
        KeysChange::Use { .. } => "next: volley debug members keys remove OLD-KEY".to_owned(),
        KeysChange::Remove { .. } => {
            "done; put the key in use into the CA's folder as gossip.key, for the nodes to come"
                .to_owned()
        }
    };
    text.push_str(&format!("{} asked; {next}\n", format::plural(all as u64, "member")));
    text
}

fn json_of(answers: &[Answer]) -> serde_json::Value {
    let members: Vec<_> = answers
        .iter()
        .map(|answer| {
            let ring = answer.said.as_ref().ok();
            let keys: Option<Vec<String>> =
                ring.map(|ring| ring.keys.iter().map(ToString::to_string).collect());
            json!({
                "node": answer.row.node.to_string(), "role": answer.row.role.name(),
                "address": answer.row.address.to_string(), "keys": keys,
                "sealing": ring.map(|ring| ring.sealing.to_string()),
                "problem": answer.said.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    json!({ "members": members })
}
