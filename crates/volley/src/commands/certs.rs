//! `volley certs ...`: a CA for development, certificates from it, and what is in them.

pub mod folder;
mod gossip;
mod look;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::NodeId;
use report::ExitCode;
use serde_json::json;
use trust::{CaError, DevCa, Role, Utc, Validity};

use self::folder::{CA_FILE, CA_KEY_FILE, GOSSIP_FILE};
use crate::cli::{
    CertsAction, CertsArgs, CertsGossipKeyArgs, CertsInitArgs, CertsIssueArgs, CertsTokenArgs,
};
use crate::failure::{Failure, told};
use crate::print;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn certs(args: &CertsArgs) -> ExitCode {
    let done = match &args.action {
        CertsAction::Init(args) => init(args),
        CertsAction::Issue(args) => issue(args),
        CertsAction::Token(args) => token(args),
        CertsAction::Show(args) => look::show(args),
        CertsAction::Check(args) => look::check(args),
        CertsAction::GossipKey(args) => gossip_key(args),
    };
    told(done)
}

/// Seconds since 1970, as certificates count.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

fn lasting(days: u32) -> Validity {
    Validity::starting(unix_now(), DAY * days)
}

/// A path as an argument of the next command.
pub fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-~+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Files that were made, each with what it is for.
struct Made {
    files: Vec<(PathBuf, &'static str)>,
}

impl Made {
    fn text(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|(path, _)| shown(path)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let lines = names.iter().zip(&self.files);
        lines.map(|(name, (_, what))| format!("  {name:width$}  {what}\n")).collect()
    }
}

fn init(args: &CertsInitArgs) -> Result<ExitCode, Failure> {
    let folder = &args.folder;
    let key_file = folder.join(GOSSIP_FILE);
    // Before the CA is made, so that a refusal leaves nothing behind.
    if key_file.exists() {
        return Err(Failure::failed(CaError::Exists { path: key_file }));
    }
    let validity = lasting(args.days);
    let ca = DevCa::create(folder, &args.cluster, &args.environment, validity)
        .map_err(Failure::failed)?;
    let key = gossip::draw(&key_file)?;
    if args.json {
        let value = json!({
            "cluster": ca.cluster(), "environment": ca.environment(), "not_after": validity.not_after,
            "ca": folder.join(CA_FILE), "ca_key": folder.join(CA_KEY_FILE),
            "gossip_key_file": key_file, "gossip_key": key.to_string(),
        });
        print::line(&value.to_string());
        return Ok(ExitCode::Passed);
    }
    let made = Made {
        files: vec![
            (folder.join(CA_FILE), "what every node trusts"),
            (folder.join(CA_KEY_FILE), "secret: whoever has it can make nodes; keep it off them"),
            (key_file, "secret: seals the gossip; the same on all nodes"),
        ],
    };
    print::out(&format!(
        "made a CA for cluster {}, environment {}, until {}\n{}\nnext, for each node:\n  \
         volley certs issue --ca {} --role manager --datacenter dc1 --out ./m1\n",
        ca.cluster(),
        ca.environment(),
        Utc(validity.not_after),
        made.text(),
        shown(folder),
    ));
    Ok(ExitCode::Passed)
}

fn open(folder: &Path) -> Result<DevCa, Failure> {
    DevCa::open(folder).map_err(|error| match error {
        CaError::Io { error, .. }
            if error.kind() == std::io::ErrorKind::NotFound
                && folder.join("ca").join(CA_FILE).exists() =>
        {
            let inner = folder.join("ca");
            Failure::failed(format!("{} is no CA", shown(folder)))
                .help(format!("there is one in it: --ca {}", shown(&inner)))
        }
        // Another CA in its place would be one that nobody trusts.
        CaError::Io { error, .. }
            if error.kind() == std::io::ErrorKind::NotFound && whose(folder).is_some() =>
        {
            let whose = whose(folder).unwrap_or_default();
            Failure::failed(format!("{} is the folder of {whose}, not of a CA", shown(folder)))
                .help("give the folder of `volley certs init`, in which ca-key.pem is")
        }
        CaError::Io { path, error } if error.kind() == std::io::ErrorKind::NotFound => {
            let help = format!("make a CA first: volley certs init {}", shown(folder));
            Failure::failed(error).at(path.display()).help(help)
        }
        error => Failure::failed(error),
    })
}

/// Whose certificate is in a folder, if there is one.
fn whose(folder: &Path) -> Option<String> {
    let files = folder::find(folder).ok()?;
    let facts = trust::show(&files.certificate).ok()?.into_iter().next()?;
    let identity = facts.identity.ok()?;
    Some(format!("{} {}", identity.role, identity.node))
}

fn token(args: &CertsTokenArgs) -> Result<ExitCode, Failure> {
    let ca = open(&args.ca)?;
    let token = ca.token(&args.datacenter, Validity::starting(unix_now(), args.valid));
    let token = token.map_err(Failure::failed)?;
    let text = token.to_text();
    if args.json {
        let identity = token.identity();
        let value = json!({
            "token": text, "not_after": token.not_after(), "datacenter": identity.datacenter,
            "cluster": identity.cluster, "environment": identity.environment, "id": identity.node.to_string(),
        });
        print::line(&value.to_string());
        return Ok(ExitCode::Passed);
    }
    print::out(&format!(
        "a token for workers of {}/{} in {}, until {}\n\
         secret: whoever has it can become a worker\n\n\
         on each of them, with the address of a manager that was started with --ca {}:\n  \
         volley worker --join MANAGER:7500 --token {text} --data ./worker\n",
        ca.cluster(),
        ca.environment(),
        args.datacenter,
        Utc(token.not_after()),
        shown(&args.ca),
    ));
    Ok(ExitCode::Passed)
}

fn issue(args: &CertsIssueArgs) -> Result<ExitCode, Failure> {
    if args.role == Role::Recruit {
        let what = "a recruit's certificate is inside a join token: volley certs token makes one";
        return Err(Failure::failed(what));
    }
    let ca = open(&args.ca)?;
    // Clients take no part in the gossip.
    let takes_part = args.role != Role::Client;
    let gossip_from = args.ca.join(GOSSIP_FILE);
    let gossip_key = if takes_part { Some(gossip::read(&gossip_from)?) } else { None };
    folder::check_free_for(&args.out, CA_FILE, ca.certificate().as_bytes())?;
    if let Some(key) = &gossip_key {
        folder::check_free_for(&args.out, GOSSIP_FILE, key.text().as_bytes())?;
    }
    folder::check_has_none(&args.out)?;
    let node = args.node.unwrap_or_else(|| NodeId(uuid()));
    let issued =
        ca.issue(args.role, &args.datacenter, node, lasting(args.days)).map_err(Failure::failed)?;
    let stem = args.name.clone().unwrap_or_else(|| format!("{}-{node}", args.role));
    if stem == "ca" {
        return Err(
            Failure::failed("`ca` is the name of the CA's own files").help("choose another --name")
        );
    }
    let files = issued.write_as(&args.out, &stem).map_err(Failure::failed)?;
    let mut made = Made {
        files: vec![
            (files.certificate.clone(), "the certificate"),
            (files.key.clone(), "secret: its key"),
            (args.out.join(CA_FILE), "what it trusts"),
        ],
    };
    folder::create_or_keep(&args.out, CA_FILE, ca.certificate().as_bytes())?;
    if let Some(key) = &gossip_key {
        folder::create_or_keep(&args.out, GOSSIP_FILE, key.text().as_bytes())?;
        made.files.push((args.out.join(GOSSIP_FILE), "secret: seals the gossip"));
    }
    let until = issued.validity.not_after;
    if args.json {
        let identity = &issued.identity;
        let value = json!({
            "node": node.to_string(), "role": identity.role.name(), "datacenter": identity.datacenter,
            "cluster": identity.cluster, "environment": identity.environment, "not_after": until,
            "certificate": files.certificate, "key": files.key, "ca": args.out.join(CA_FILE),
            "gossip_key_file": takes_part.then(|| args.out.join(GOSSIP_FILE)),
        });
        print::line(&value.to_string());
        return Ok(ExitCode::Passed);
    }
    let out = shown(&args.out);
    let next = match args.role {
        Role::Client => format!("volley debug members --certs {out}"),
        role => format!(
            "volley debug agent --certs {out} --data {out}-data --bind 127.0.0.1:7500    # a bare {role}, to try it"
        ),
    };
    print::out(&format!(
        "issued {}, until {}\n{}\nnext:\n  {next}\n",
        issued.identity,
        Utc(until),
        made.text()
    ));
    Ok(ExitCode::Passed)
}

fn gossip_key(args: &CertsGossipKeyArgs) -> Result<ExitCode, Failure> {
    let key = gossip::draw(&args.file)?;
    if args.json {
        let value = json!({ "gossip_key_file": args.file, "gossip_key": key.to_string() });
        print::line(&value.to_string());
    } else {
        print::out(&format!(
            "made gossip key {key} in {}\nnext, at one member; it tells the others:\n  \
             volley debug members keys install {}\n",
            shown(&args.file),
            shown(&args.file)
        ));
    }
    Ok(ExitCode::Passed)
}

/// A random UUID (version 4).
fn uuid() -> u128 {
    let mut bytes = [0; 16];
    // Without them ids would repeat; there is nothing better to do than to end.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    u128::from_be_bytes(bytes)
}
