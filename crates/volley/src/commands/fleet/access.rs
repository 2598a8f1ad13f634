//! How a command gets into a cluster: whom it asks, which certificate it shows, and what is said
//! when that fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::fleet::client::{ClientOptions, FleetClient, FleetError};
use node::config::CredentialFiles;
use report::ExitCode;

use crate::cli::FleetPlace;
use crate::cluster;
use crate::commands::certs::folder;
use crate::failure::Failure;

const DEADLINE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// Which cluster, and how this command gets in.
pub struct ClusterAccess {
    pub managers: Vec<String>,
    pub certs: PathBuf,
    pub credentials: CredentialFiles,
    pub deadline: Duration,
    pub patience: Duration,
    /// What has to be typed after another command to reach the same cluster.
    pub flags: String,
    /// The file that `volley up` has left, if the managers were taken from there.
    from_file: Option<PathBuf>,
}

impl ClusterAccess {
    pub fn open(place: &FleetPlace) -> Result<ClusterAccess, Failure> {
        let known = match (&place.certs, place.managers.is_empty()) {
            (Some(_), false) => None,
            _ => cluster::find()?,
        };
        let from_file = known.as_ref().map(|(path, file)| (path.display().to_string(), file));
        let nowhere = "no cluster is known here; name one with --manager HOST and --certs DIR, or start one with \
                       `volley up`";
        let managers = match (&place.managers[..], &from_file) {
            ([], Some((_, file))) => file.managers.clone(),
            ([], None) => return Err(Failure::failed(nowhere)),
            (named, _) => named.to_vec(),
        };
        let certs = match (&place.certs, &from_file) {
            (Some(certs), _) => certs.clone(),
            (None, Some((_, file))) => file.certs.clone(),
            (None, None) => {
                let text = "--certs DIR is needed: the folder with a client's certificate of that cluster \
                            (`volley certs issue --role client` makes one)";
                return Err(Failure::failed(text));
            }
        };
        let files = folder::find(&certs).map_err(|problem| match &from_file {
            Some((path, _)) if place.certs.is_none() => Failure::failed(format!(
                "{problem} (named in {path}; is that cluster still there?)"
            )),
            _ => Failure::failed(format!("{problem} (--certs names the folder)")),
        })?;
        let roles = [trust::Role::Client, trust::Role::Manager, trust::Role::Gate];
        folder::must_be(&certs, &files, &roles)
            .map_err(|problem| Failure::failed(format!("{problem} (--certs names the folder)")))?;
        folder::warn_if_readable(&files);
        let mut flags = String::new();
        for manager in &place.managers {
            flags += &format!(" --manager {manager}");
        }
        if let Some(certs) = &place.certs {
            flags += &format!(" --certs {}", certs.display());
        }
        let credentials =
            CredentialFiles { certificate: files.certificate, key: files.key, ca: files.ca };
        let deadline = place.timeout.unwrap_or(DEADLINE);
        let from_file = known.map(|(path, _)| path).filter(|_| place.managers.is_empty());
        let patience = PATIENCE;
        Ok(ClusterAccess { managers, certs, credentials, deadline, patience, flags, from_file })
    }

    pub async fn connect(&self) -> Result<FleetClient, Failure> {
        // Somebody waits: they should know for what, once for each reason.
        let told = std::sync::Mutex::new(String::new());
        let notice = move |text: &str| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if *told != text {
                eprintln!("volley: {text}");
                text.clone_into(&mut told);
            }
        };
        let options = ClientOptions {
            credentials: self.credentials.clone(),
            managers: self.managers.clone(),
            deadline: self.deadline,
            patience: self.patience,
            notice: Some(Arc::new(notice)),
        };
        FleetClient::connect(options).await.map_err(|error| self.explain(&error))
    }

    /// What went wrong, and what to do about it here.
    pub fn explain(&self, error: &FleetError) -> Failure {
        let certs = self.certs.display();
        match error {
            FleetError::Credentials(_) => Failure::failed(error)
                .at(&certs)
                .help(format!("`volley certs check {certs}` says more")),
            FleetError::Nobody { failures, .. } => {
                let lasting =
                    failures.iter().any(|one| one.is_lasting() && !one.is_of_another_role());
                let broken = failures.iter().find_map(|one| one.broken_port());
                let refused = failures.iter().all(|one| one.was_refused());
                if let Some(file) = self.from_file.as_ref().filter(|_| refused) {
                    return Failure::failed(error).help(self.start_again(file));
                }
                // Somebody has answered: the address is right.
                let answered = failures.iter().any(|one| one.is_an_answer());
                let hint = match lasting {
                    false if answered && broken.is_none() => return Failure::failed(error),
                    _ if broken.is_some() => format!(
                        "is that the port of a manager's ledger? The manager itself listens one below, at {}",
                        broken.unwrap_or_default()
                    ),
                    true => format!("the certificate in {certs} was shown (--certs)"),
                    false => "--manager says where they are".to_owned(),
                };
                Failure::failed(format!("{error} ({hint})"))
            }
            FleetError::NoSuchJob { .. } => {
                Failure::failed(format!("{error} (`volley jobs --ended` lists them)"))
            }
            FleetError::Rejected { .. } => Failure::invalid(error),
            FleetError::Refused { .. } if error.is_denied() && self.is_a_managers() => {
                Failure::failed(format!(
                    "the certificate in {certs} is a manager's that the cluster has not admitted, and this needs a \
                     client's ({error})"
                ))
                .help("issue one: volley certs issue --ca CA --role client --datacenter NAME --out DIR")
            }
            _ => Failure::failed(error),
        }
    }

    fn is_a_managers(&self) -> bool {
        let CredentialFiles { certificate, key, ca } = self.credentials.clone();
        folder::role_of(&trust::Files { certificate, key, ca }) == Some(trust::Role::Manager)
    }

    /// The cluster was one of `volley up`, and everything of it has been removed.
    pub fn is_removed(&self) -> bool {
        self.from_file.as_ref().is_some_and(|file| !file.exists()) && !self.certs.exists()
    }

    /// `volley up` was killed, and its file is left; or it has ended.
    fn start_again(&self, file: &Path) -> String {
        if self.is_removed() {
            return "the `volley up` that these addresses are from has ended, and its data with it; with `--dir DIR` it \
                    keeps them"
                .to_owned();
        }
        let folder = self.certs.parent().unwrap_or(&self.certs);
        format!(
            "nobody listens there. The addresses are from {}, which a `volley up` has left that does not run any \
             more; `volley up --dir {}` starts it again (or --manager names another cluster)",
            file.display(),
            folder.display()
        )
    }

    /// The same of a watch: who has lost all managers does not know what becomes of the job.
    pub fn explain_watch(&self, error: &FleetError) -> Failure {
        let failure = self.explain(error);
        match error {
            FleetError::Nobody { .. } => Failure { exit: ExitCode::ControlPlaneLost, ..failure },
            _ => failure,
        }
    }
}
