//! `volley certs show` and `check`: what is in files, and what is wrong with them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use report::ExitCode;
use serde_json::{Value, json};
use trust::{CredentialsError, DevCa, Facts, Files, Finding, Identity, InspectError, Utc};

use super::folder::{self, CA_FILE, CA_KEY_FILE, GOSSIP_FILE};
use super::{gossip, unix_now};
use crate::cli::{CertsCheckArgs, CertsShowArgs};
use crate::failure::Failure;
use crate::print;

pub fn show(args: &CertsShowArgs) -> Result<ExitCode, Failure> {
    let file = match args.file.is_dir() {
        true if args.file.join(CA_KEY_FILE).exists() => args.file.join(CA_FILE),
        true => folder::find(&args.file)?.certificate,
        false => args.file.clone(),
    };
    let found = match trust::show(&file) {
        Ok(found) => found,
        Err(error @ InspectError::Read { .. }) => return Err(Failure::failed(error)),
        Err(error) => return show_something_else(args, &error),
    };
    let now = unix_now();
    if args.json {
        let values: Vec<Value> = found.iter().map(json_of).collect();
        print::line(&Value::from(values).to_string());
    } else {
        let texts: Vec<String> = found.iter().map(|facts| text_of(facts, now)).collect();
        print::out(&texts.join("\n"));
    }
    Ok(ExitCode::Passed)
}

/// A file without certificates: perhaps a key.
fn show_something_else(args: &CertsShowArgs, error: &InspectError) -> Result<ExitCode, Failure> {
    if let Ok(key) = gossip::read(&args.file) {
        if args.json {
            print::line(&json!({ "gossip_key": key.to_string() }).to_string());
        } else {
            print::line(&format!("gossip key {key}"));
        }
        return Ok(ExitCode::Passed);
    }
    let text = std::fs::read(&args.file).unwrap_or_default();
    let is_key = String::from_utf8_lossy(&text).contains("PRIVATE KEY-----");
    let failure = Failure::failed(error).at(args.file.display());
    Err(match is_key {
        true => failure.help("it is a private key, show its certificate instead"),
        false => failure,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text_of(facts: &Facts, now: u64) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:12} {value}\n"));
    line("subject", &facts.subject);
    line("issuer", &facts.issuer);
    match &facts.identity {
        Ok(Identity { cluster, environment, role, datacenter, node }) => {
            line("role", role.name());
            line("node", &node.to_string());
            line("datacenter", datacenter);
            line("cluster", &format!("{cluster}, environment {environment}"));
        }
        Err(_) if facts.is_ca => line("use", "a CA: it issues certificates, it is no node's"),
        Err(why) => line("identity", &format!("none: {why}")),
    }
    let days = |seconds: u64| report::format::plural(seconds / 86_400, "day").to_string();
    let state = if now < facts.not_before {
        "NOT YET VALID".to_owned()
    } else if now > facts.not_after {
        format!("EXPIRED {} ago", days(now - facts.not_after))
    } else {
        format!("{} left", days(facts.not_after - now))
    };
    line("valid", &format!("{} to {}, {state}", Utc(facts.not_before), Utc(facts.not_after)));
    line("serial", &facts.serial);
    line("sha-256", &hex(&facts.fingerprint));
    text
}

fn json_of(facts: &Facts) -> Value {
    let identity = facts.identity.as_ref().map(|identity| {
        json!({
            "role": identity.role.name(), "node": identity.node.to_string(), "datacenter": identity.datacenter,
            "cluster": identity.cluster, "environment": identity.environment,
        })
    });
    let problem = facts.identity.as_ref().err().filter(|_| !facts.is_ca);
    json!({
        "subject": facts.subject, "issuer": facts.issuer, "serial": facts.serial, "is_ca": facts.is_ca,
        "not_before": facts.not_before, "not_after": facts.not_after, "sha256": hex(&facts.fingerprint),
        "identity": identity.ok(), "problem": problem.map(ToString::to_string),
    })
}

/// One line of `check`.
struct Remark {
    what: String,
    /// A node would not start.
    fatal: bool,
}

impl Remark {
    fn fatal(what: String) -> Remark {
        Remark { what, fatal: true }
    }
}

pub fn check(args: &CertsCheckArgs) -> Result<ExitCode, Failure> {
    let folder = &args.folder;
    let now = unix_now();
    let names = folder::pairs(folder)?;
    let is_ca = folder.join(CA_KEY_FILE).exists();
    let mut sound = Vec::new();
    let mut remarks = Vec::new();
    if is_ca {
        match DevCa::open(folder) {
            Ok(ca) => sound.push(format!("the CA of {}/{}", ca.cluster(), ca.environment())),
            Err(error) => remarks.push(Remark::fatal(error.to_string())),
        }
        remarks.extend(readable_by_others(&folder.join(CA_KEY_FILE)));
    }
    let mut takes_part = is_ca;
    for name in &names {
        let files = folder::files_of(folder, name);
        let findings = trust::check(&files, now);
        match identity_of(&files) {
            Some((identity, until)) if !findings.iter().any(Finding::is_fatal) => {
                takes_part |= identity.role != trust::Role::Client;
                sound.push(format!("{identity}, until {}", Utc(until)));
            }
            _ => takes_part |= true,
        }
        remarks.extend(findings.into_iter().map(|finding| {
            let what = match &finding {
                Finding::Unusable(error) => format!("{}: {}", shown_place(&files, error), finding),
                _ => finding.to_string(),
            };
            Remark { what, fatal: finding.is_fatal() }
        }));
    }
    let key_file = folder.join(GOSSIP_FILE);
    if key_file.exists() {
        match gossip::read(&key_file) {
            Ok(key) => sound.push(format!("gossip key {key}")),
            Err(failure) => remarks.push(Remark::fatal(failure.to_string())),
        }
        remarks.extend(readable_by_others(&key_file));
    } else if takes_part && !names.is_empty() {
        remarks.push(Remark::fatal(format!(
            "{} is missing; copy it from the folder of the CA or from another node",
            key_file.display()
        )));
    }
    if names.is_empty() && !is_ca {
        // The search for exactly one says how to get one.
        return folder::find(folder).map(|_| ExitCode::Passed);
    }
    if names.len() > 1 {
        remarks.push(Remark {
            what: format!(
                "{} certificates with keys are here ({}); `--certs {}` cannot choose, \
                 give each node a folder of its own",
                names.len(),
                names.join(", "),
                folder.display()
            ),
            fatal: false,
        });
    }
    say(args, &sound, &remarks);
    Ok(if remarks.iter().any(|remark| remark.fatal) { ExitCode::Failed } else { ExitCode::Passed })
}

fn say(args: &CertsCheckArgs, sound: &[String], remarks: &[Remark]) {
    let fatal = remarks.iter().any(|remark| remark.fatal);
    if args.json {
        let list = |wanted: bool| -> Vec<&str> {
            let fitting = remarks.iter().filter(|remark| remark.fatal == wanted);
            fitting.map(|remark| remark.what.as_str()).collect()
        };
        let value = json!({ "usable": !fatal, "sound": sound, "problems": list(true), "warnings": list(false) });
        print::line(&value.to_string());
        return;
    }
    let mut text = String::new();
    sound.iter().for_each(|what| text.push_str(&format!("ok       {what}\n")));
    for Remark { what, fatal } in remarks {
        text.push_str(&format!("{}  {what}\n", if *fatal { "PROBLEM" } else { "warning" }));
    }
    text.push_str(match (fatal, remarks.is_empty()) {
        (true, _) => "not usable as it is\n",
        (false, true) => "usable\n",
        (false, false) => "usable, but see the warnings\n",
    });
    print::out(&text);
}

/// Which of the three files the problem is about.
fn shown_place(files: &Files, error: &CredentialsError) -> String {
    let path = match error {
        CredentialsError::Pem { what: "CA", .. }
        | CredentialsError::NotACa { .. }
        | CredentialsError::CaExpired { .. } => &files.ca,
        CredentialsError::Pem { what: "key", .. } | CredentialsError::KeyMismatch => &files.key,
        _ => &files.certificate,
    };
    path.display().to_string()
}

fn identity_of(files: &Files) -> Option<(Identity, u64)> {
    let facts = trust::show(&files.certificate).ok()?.into_iter().next()?;
    Some((facts.identity.ok()?, facts.not_after))
}

fn readable_by_others(path: &Path) -> Option<Remark> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    let finding = Finding::KeyReadable { path: path.to_path_buf(), mode };
    (mode & 0o077 != 0).then(|| Remark { what: finding.to_string(), fatal: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ca_file_is_found_under_its_name() {
        let files = folder::files_of(Path::new("x"), "node");
        let error = CredentialsError::NotACa { subject: String::new() };
        assert_eq!(shown_place(&files, &error), "x/ca.pem");
        assert_eq!(shown_place(&files, &CredentialsError::KeyMismatch), "x/node-key.pem");
    }
}
