//! Where requests go: a target that no URL follows, and names in `hosts` that no URL has.

use super::handover::setters;
use super::{Checker, SECTIONS, inner_nodes, section};
use crate::decode::METHODS;
use crate::model::{Action, Step, Workflow};
use crate::problem::Finding;
use crate::template::{Part, Source, Template};
use crate::tree::{Node, Place, shorten};
use base::names::did_you_mean;

/// The URL of a request, and where it stands.
struct Address<'p> {
    step: &'p str,
    place: Place,
    goes: Goes,
}

/// Where a URL leads, as far as that is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goes {
    /// To the target.
    Along,
    /// To an address of its own; the host where it is fixed.
    Elsewhere {
        url: String,
        host: Option<String>,
    },
    Unknown,
}

impl<'p> Checker<'p> {
    pub fn addresses(&mut self, root: &Node, nodes: &[Node]) {
        let plan = self.plan;
        let mut all = Vec::new();
        let items =
            |node: &Node, key: &str| node.get(key).map(Node::items).unwrap_or_default().to_vec();
        for (key, steps) in [("setup", &plan.setup), ("teardown", &plan.teardown)] {
            self.of_steps(steps, &items(root, key), None, &mut all);
        }
        for (workflow, node) in plan.workflows.iter().zip(nodes) {
            for key in SECTIONS {
                let steps = section(workflow, key);
                self.of_steps(steps, &items(node, key), Some(workflow), &mut all);
            }
        }
        if self.notes.target_given {
            self.target_followed(&all);
        }
        self.hosts_used(root, nodes, &all);
        self.tls_used(root, nodes, &all);
    }

    /// Settings of TLS where every address begins with `http://`.
    fn tls_used(&mut self, root: &Node, nodes: &[Node], all: &[Address<'_>]) {
        let plain = |url: &str| url.starts_with("http://");
        let target = self.plan.target.as_ref().and_then(|target| target.parts.first());
        let to_target = matches!(target, Some(Part::Text(text)) if plain(text));
        let in_the_clear = |address: &Address<'_>| match &address.goes {
            Goes::Along => to_target,
            Goes::Elsewhere { url, .. } => plain(url),
            Goes::Unknown => false,
        };
        let settings = root.get("defaults").into_iter();
        let mut settings = settings.chain(nodes.iter().filter_map(|node| node.get("http")));
        let Some(tls) = settings.find_map(|settings| settings.entry("tls")) else { return };
        if !all.is_empty() && all.iter().all(in_the_clear) {
            let message = "`tls` has no effect: every URL of the plan begins with `http://`";
            let help = "write `https://` if the target speaks TLS, or remove `tls`; a redirect to https would use it";
            self.warn(tls.place, message, help.to_owned());
        }
    }

    fn of_steps(
        &self,
        steps: &'p [Step],
        nodes: &[Node],
        workflow: Option<&'p Workflow>,
        into: &mut Vec<Address<'p>>,
    ) {
        for (step, node) in steps.iter().zip(nodes) {
            if let Action::Request(request) = &step.action {
                let place = url_node(node).map_or(node.place, |url| url.place);
                let goes = self.goes(&request.url, workflow);
                into.push(Address { step: &step.name, place, goes });
            }
            for (steps, nodes) in step.inner().into_iter().zip(inner_nodes(node)) {
                self.of_steps(steps, nodes, workflow, into);
            }
        }
    }

    fn goes(&self, url: &Template, workflow: Option<&Workflow>) -> Goes {
        match url.parts.first() {
            Some(Part::Text(text)) if text.starts_with('/') => Goes::Along,
            Some(Part::Text(text)) => {
                let host = host(text, url.parts.len() > 1);
                Goes::Elsewhere { url: text.clone(), host }
            }
            Some(Part::Reference(reference)) => match &reference.source {
                Source::Variable(name) => self.fixed_variable(name, url, workflow),
                _ => Goes::Unknown,
            },
            None => Goes::Unknown,
        }
    }

    /// `${base}/cart`, where `vars` says once and for all what `base` is.
    fn fixed_variable(&self, name: &str, url: &Template, workflow: Option<&Workflow>) -> Goes {
        let plan = self.plan;
        let Some(own) = workflow else { return Goes::Unknown };
        let mut vars = own.vars.iter().chain(&plan.vars);
        let value = vars.find(|(variable, _)| variable == name).map(|(_, value)| value);
        let Some(text) = value.and_then(Template::as_literal) else { return Goes::Unknown };
        if setters(plan, own).iter().any(|(variable, step)| *variable == name && step.is_some()) {
            return Goes::Unknown;
        }
        match text {
            text if text.starts_with('/') => Goes::Along,
            text if text.contains("://") => {
                // What follows the variable may still belong to the host: `${base}.example/`.
                let follows = match url.parts.get(1) {
                    Some(Part::Text(rest)) => !rest.starts_with(['/', '?', '#', ':']),
                    Some(Part::Reference(_)) => true,
                    None => false,
                };
                Goes::Elsewhere { url: text.to_owned(), host: host(text, follows) }
            }
            _ => Goes::Unknown,
        }
    }

    /// `--target` where URLs have an address of their own: the load goes where the plan says.
    fn target_followed(&mut self, all: &[Address<'_>]) {
        let own = |address: &&Address<'_>| matches!(address.goes, Goes::Elsewhere { .. });
        let Some(first) = all.iter().find(own) else { return };
        let Goes::Elsewhere { url, .. } = &first.goes else { return };
        let many = all.iter().filter(own).count();
        let (step, url) = (shorten(first.step), shorten(url));
        let help = "write the path alone where the target is meant, for example `get: /`";
        if many == all.len() {
            let message = format!(
                "--target has no effect: every step has a whole URL, and `{step}` goes to {url}"
            );
            return self.report(first.place, message, Some(help.into()));
        }
        let message = match many {
            1 => format!("--target has no effect on `{step}`, which goes to {url}"),
            _ => format!(
                "--target has no effect on {many} steps with a whole URL; `{step}` goes to {url}"
            ),
        };
        self.warn(first.place, message, help.to_owned());
    }

    /// `hosts` for a name that no URL has: requests go where DNS leads.
    fn hosts_used(&mut self, root: &Node, nodes: &[Node], all: &[Address<'_>]) {
        let plan = self.plan;
        let mut names: Vec<String> = Vec::new();
        for address in all {
            match &address.goes {
                Goes::Along => {}
                Goes::Elsewhere { host: Some(host), .. } => names.push(host.clone()),
                _ => return,
            }
        }
        if let Some(target) = &plan.target {
            let Some(Part::Text(text)) = target.parts.first() else { return };
            if !text.starts_with("unix:") {
                let Some(host) = host(text, target.parts.len() > 1) else { return };
                names.push(host);
            }
        }
        names.sort_unstable();
        names.dedup();
        let settings = root.get("defaults").into_iter();
        let settings = settings.chain(nodes.iter().filter_map(|node| node.get("http")));
        let hosts = settings.filter_map(|settings| settings.get("hosts"));
        let mut unused = Vec::new();
        for entry in hosts.flat_map(Node::entries) {
            if names.iter().any(|name| leads(&entry.key, name)) {
                continue;
            }
            let (key, _) = entry.key.rsplit_once(':').unwrap_or((&entry.key, ""));
            let help = did_you_mean(key, names.iter().map(String::as_str));
            let help = help.or_else(|| contained(key, &names)).unwrap_or_else(|| {
                format!("they go to {}; or the target redirects there", names.join(", "))
            });
            let message = format!(
                "`hosts` has `{}`, and no URL of the plan has this name",
                shorten(&entry.key)
            );
            unused.push(Finding::new(entry.place, message).help(help));
        }
        self.warnings.extend(unused);
    }
}

/// `www.shop.example` and `shop.example`.
fn contained(key: &str, names: &[String]) -> Option<String> {
    let near = |name: &&String| {
        let (long, short) =
            if name.len() > key.len() { (name.as_str(), key) } else { (key, name.as_str()) };
        long.strip_suffix(short).is_some_and(|before| before.ends_with('.'))
    };
    names.iter().find(near).map(|name| format!("did you mean `{name}`?"))
}

/// Whether an entry of `hosts` is for this name: as it is, with a port, or `*` and its end.
fn leads(key: &str, name: &str) -> bool {
    let key = key.to_lowercase();
    let bare = match key.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => key.as_str(),
    };
    bare == name || bare.strip_prefix('*').is_some_and(|end| name.ends_with(end))
}

/// The host of a URL's beginning, unless it may go on.
fn host(text: &str, goes_on: bool) -> Option<String> {
    let rest = text.split_once("://")?.1;
    let end = rest.find(['/', '?', '#']);
    if end.is_none() && goes_on {
        return None;
    }
    let authority = &rest[..end.unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    Some(host.trim_matches(['[', ']']).to_lowercase())
}

/// Where the URL of a request stands.
fn url_node(step: &Node) -> Option<&Node> {
    if let Some(request) = step.get("request") {
        return request.get("url");
    }
    METHODS.iter().find_map(|method| step.get(method))
}
