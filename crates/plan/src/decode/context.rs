//! What decoding carries along: the environment, the findings, and the references met so far.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::problem::Finding;
use crate::shape::{Env, unset, unset_help};
use crate::template::{
    Escape, Foreign, Part, Source, Template, TemplateError, find_foreign, is_name, spans,
};
use crate::tree::{Lines, Node, Place, shorten};
use crate::units;

/// A reference of a template, for the check whether it refers to anything.
#[derive(Debug, Clone)]
pub struct RefUse {
    pub place: Place,
    pub source: Source,
    pub has_default: bool,
    /// Filled in when the response is there: checks and `record` see what `extract` found.
    pub after_response: bool,
}

pub struct Context<'a> {
    text: &'a str,
    lines: Lines<'a>,
    env: Env<'a>,
    pub base_dir: &'a Path,
    /// Where files are that came with the plan, by the name that it uses; `None`: in its folder.
    shipped: Option<&'a BTreeMap<String, PathBuf>>,
    /// Files that the plan names, and where they are.
    pub files: RefCell<Vec<(String, PathBuf)>>,
    /// The data sets of the plan.
    data_names: Vec<String>,
    /// Whether relative URLs have something to be relative to.
    pub has_target: bool,
    pub findings: RefCell<Vec<Finding>>,
    /// What is legal and hardly meant.
    pub warnings: RefCell<Vec<Finding>>,
    /// References since the last step or section began.
    refs: RefCell<Vec<RefUse>>,
    /// References of each step itself, by the step's byte range.
    pub step_refs: RefCell<BTreeMap<(usize, usize), Vec<RefUse>>>,
    /// References outside steps: of the plan (`None`) or of a workflow.
    pub loose_refs: RefCell<Vec<(Option<usize>, RefUse)>>,
    /// What looks like another tool's reference.
    pub foreign: RefCell<Vec<(Place, Foreign)>>,
    /// Body files that are sent as they are, and what looks like references in them.
    pub body_files: RefCell<Vec<(Place, Vec<String>)>>,
    /// Whether a key fits a client certificate.
    pub key_fits: Option<crate::KeyFits<'a>>,
    /// Whether a file of certificates can be used.
    pub ca_reads: Option<crate::CaReads<'a>>,
    /// Whether an address is one of this machine.
    pub is_here: Option<crate::IsHere<'a>>,
    /// The step being decoded, for messages.
    step: RefCell<String>,
    /// Whether what is being decoded is filled in after the response.
    after_response: Cell<bool>,
    /// Step names of the workflow being decoded.
    taken: RefCell<BTreeMap<String, Place>>,
    /// How often each name has been made.
    made: RefCell<BTreeMap<String, usize>>,
}

/// A finding that has been reported; help may be added.
pub struct Reported<'a>(&'a RefCell<Vec<Finding>>);

impl Reported<'_> {
    pub fn help(self, help: impl Into<String>) {
        self.maybe_help(Some(help.into()));
    }

    pub fn maybe_help(self, help: Option<String>) {
        if let Some(last) = self.0.borrow_mut().last_mut() {
            last.help = help;
        }
    }

    /// No help: the message says it all.
    pub fn done(self) {}
}

impl<'a> Context<'a> {
    pub fn new(
        text: &'a str,
        options: &'a crate::ReadOptions<'a>,
        base_dir: &'a Path,
        has_target: bool,
        data_names: Vec<String>,
    ) -> Self {
        Context {
            text,
            lines: Lines::new(text),
            env: options.env,
            base_dir,
            shipped: options.files,
            files: RefCell::default(),
            has_target,
            data_names,
            findings: RefCell::default(),
            warnings: RefCell::default(),
            refs: RefCell::default(),
            step_refs: RefCell::default(),
            loose_refs: RefCell::default(),
            foreign: RefCell::default(),
            body_files: RefCell::default(),
            key_fits: options.key_fits,
            ca_reads: options.ca_reads,
            is_here: options.is_here,
            step: RefCell::default(),
            after_response: Cell::new(false),
            taken: RefCell::default(),
            made: RefCell::default(),
        }
    }

    pub fn report(&self, place: Place, message: impl Into<String>) -> Reported<'_> {
        self.findings.borrow_mut().push(Finding::new(place, message));
        Reported(&self.findings)
    }

    /// Something legal that is hardly meant; the plan runs all the same.
    pub fn warn(&self, place: Place, message: impl Into<String>) -> Reported<'_> {
        self.warnings.borrow_mut().push(Finding::new(place, message));
        Reported(&self.warnings)
    }

    /// Whether a file of this name lies where the plan's files are.
    pub fn has_file(&self, name: &str) -> bool {
        let is_name = !name.is_empty() && name.len() < 200 && !name.contains(['\n', '$']);
        is_name
            && match self.shipped {
                None => self.base_dir.join(name).is_file(),
                Some(shipped) => shipped.contains_key(name),
            }
    }

    /// Step names are unique within a workflow.
    pub fn begin_workflow(&self) {
        self.taken.borrow_mut().clear();
        self.made.borrow_mut().clear();
    }

    /// Ends a section outside of steps: its references belong to the plan or a workflow.
    pub fn end_loose(&self, workflow: Option<usize>) {
        let refs = self.refs.take();
        self.loose_refs.borrow_mut().extend(refs.into_iter().map(|one| (workflow, one)));
    }

    /// Decodes one step, and keeps its references apart from those of the steps around it.
    pub fn in_step<T>(&self, name: &str, place: Place, decode: impl FnOnce() -> T) -> T {
        let outer_refs = self.refs.take();
        let outer_step = self.step.replace(name.to_owned());
        let decoded = decode();
        let refs = self.refs.replace(outer_refs);
        self.step_refs.borrow_mut().insert((place.start, place.end), refs);
        self.step.replace(outer_step);
        decoded
    }

    /// Decodes what is filled in when the response is there.
    pub fn after_response<T>(&self, decode: impl FnOnce() -> T) -> T {
        self.after_response.set(true);
        let decoded = decode();
        self.after_response.set(false);
        decoded
    }

    /// A name that the user gave: reported if another step has it.
    pub fn claim_name(&self, name: &str, place: Place) -> String {
        let mut taken = self.taken.borrow_mut();
        if let Some(first) = taken.get(name) {
            let message = format!("two steps are called `{}`", shorten(name));
            let line = first.line;
            self.report(place, message)
                .help(format!("the first is in line {line}; results are kept by name"));
        } else {
            taken.insert(name.to_owned(), place);
        }
        name.to_owned()
    }

    /// A name made from the step: numbered if another step has it.
    pub fn make_name(&self, name: &str, place: Place) -> String {
        let mut taken = self.taken.borrow_mut();
        let mut made = self.made.borrow_mut();
        let count = made.entry(name.to_owned()).or_default();
        loop {
            *count += 1;
            let name = match *count {
                1 => name.to_owned(),
                number => format!("{name} #{number}"),
            };
            if !taken.contains_key(&name) {
                taken.insert(name.clone(), place);
                return name;
            }
        }
    }

    /// The part of a scalar's source between two offsets of its value, if it is written verbatim.
    pub fn inside(&self, node: &Node, start: usize, end: usize) -> Place {
        self.all_inside(node, [(start, end)])[0]
    }

    /// The same for many parts, which are looked for once: a text may be long and full of them.
    fn all_inside(
        &self,
        node: &Node,
        parts: impl IntoIterator<Item = (usize, usize)>,
    ) -> Vec<Place> {
        let source = self.text.get(node.place.start..node.place.end).unwrap_or_default();
        let base = node.text().and_then(|text| source.find(text)).map(|at| node.place.start + at);
        let place = |(start, end)| match base {
            Some(base) => self.lines.place(base + start, base + end),
            None => node.place,
        };
        parts.into_iter().map(place).collect()
    }

    /// A value as it is written in the file.
    pub fn source(&self, node: &Node) -> &'a str {
        self.text.get(node.place.start..node.place.end).unwrap_or_default().trim()
    }

    pub fn template_error(&self, node: &Node, wrong: TemplateError) {
        let place = self.inside(node, wrong.start, wrong.end);
        let inner = node.text().and_then(|text| text.get(wrong.start..wrong.end));
        let inner = inner.and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
        let set = inner.and_then(|inner| inner.split_once('.')).map(|(set, _)| set.trim());
        // `${users.name}` of the data set `users`.
        let help = match (inner, set) {
            (Some(inner), Some(set)) if self.data_names.iter().any(|name| name == set) => {
                Some(format!("did you mean `${{data.{}}}`?", shorten(inner.trim())))
            }
            _ => wrong.help,
        };
        self.report(place, wrong.message).maybe_help(help);
    }

    /// All references of a text that are wrong, and not only the first.
    pub fn template_errors(&self, node: &Node, text: &str, first: TemplateError, escape: Escape) {
        let wrong = |(start, end): (usize, usize)| {
            let error = Template::parse(&text[start..end], escape).err()?;
            Some(TemplateError { start: start + error.start, end: start + error.end, ..error })
        };
        let all: Vec<TemplateError> = spans(text).into_iter().filter_map(wrong).collect();
        match all.iter().any(|one| one.start == first.start) {
            true => all.into_iter().for_each(|one| self.template_error(node, one)),
            false => self.template_error(node, first),
        }
    }

    /// Reads a scalar as a template; fills in the environment and notes the other references.
    pub fn template(&self, node: &Node, escape: Escape) -> Template {
        let Some(text) = node.text() else {
            return Template::default();
        };
        self.template_text(node, text, escape)
    }

    pub fn template_text(&self, node: &Node, text: &str, escape: Escape) -> Template {
        self.note_foreign(node, text, escape);
        match Template::parse(text, escape) {
            Ok(template) => self.fill(node, encode_text(template, escape)),
            Err(wrong) => {
                self.template_errors(node, text, wrong, escape);
                Template::default()
            }
        }
    }

    /// Remembers what may be a reference in another tool's form; it is judged when all names are
    /// known.
    pub fn note_foreign(&self, node: &Node, text: &str, escape: Escape) {
        let found = find_foreign(text, escape);
        if !found.is_empty() {
            let places = self.all_inside(node, found.iter().map(|one| (one.start, one.end)));
            self.foreign.borrow_mut().extend(places.into_iter().zip(found));
        }
    }

    /// Replaces `${env.NAME}` by its text and notes the other references.
    pub fn fill(&self, node: &Node, template: Template) -> Template {
        let places = self.reference_places(node, &template);
        let mut places = places.into_iter();
        let mut filled = Template::default();
        for part in template.parts {
            let Part::Reference(reference) = &part else {
                filled.push(part);
                continue;
            };
            let place = places.next().unwrap_or(node.place);
            let Source::Env(name) = &reference.source else {
                self.refs.borrow_mut().push(RefUse {
                    place,
                    source: reference.source.clone(),
                    has_default: reference.default.is_some(),
                    after_response: self.after_response.get(),
                });
                filled.push(part);
                continue;
            };
            let value = (self.env)(name).filter(|value| !value.is_empty());
            match value.or_else(|| reference.default.clone()) {
                Some(value) => {
                    let mut written = String::new();
                    reference.write(&value, &mut written);
                    filled.push_text(&written);
                }
                None => {
                    let step = self.step.borrow();
                    let suffix = match step.as_str() {
                        "" => String::new(),
                        step => format!(" (step `{step}`)"),
                    };
                    self.report(place, unset(name) + &suffix).help(unset_help(name));
                }
            }
        }
        filled
    }

    /// The places of a template's references, if it is all that its node says.
    fn reference_places(&self, node: &Node, template: &Template) -> Vec<Place> {
        let spans = node.text().map(spans).unwrap_or_default();
        if spans.len() != template.references().count() {
            return Vec::new();
        }
        self.all_inside(node, spans)
    }

    /// The same for what is shown in results, where no secret may stand.
    pub fn shown_templates(&self, node: Option<&Node>, escape: Escape) -> Vec<(String, Template)> {
        let templates = self.templates(node, escape);
        for entry in node.map(Node::entries).unwrap_or_default() {
            let shown = templates.iter().find(|(key, _)| *key == entry.key);
            self.no_secret(&entry.value, shown.map(|(_, template)| template), "a tag");
            if crate::RESERVED_TAGS.contains(&entry.key.as_str()) {
                let message = format!("`{}` is a tag that every request has already", entry.key);
                self.report(entry.place, message).help(format!(
                    "choose another name, for example `my_{}`: this one would be lost in the samples",
                    entry.key
                ));
            }
        }
        templates
    }

    pub fn no_secret(&self, node: &Node, template: Option<&Template>, what: &str) {
        let mut references = template.into_iter().flat_map(Template::references);
        if references.any(|one| matches!(one.source, Source::Secret(_))) {
            self.report(
                node.place,
                format!("{what} is shown in results; no secret can stand in it"),
            )
            .done();
        }
    }

    /// A map of names to templates.
    pub fn templates(&self, node: Option<&Node>, escape: Escape) -> Vec<(String, Template)> {
        let entries = node.map(Node::entries).unwrap_or_default();
        entries
            .iter()
            .map(|entry| (entry.key.clone(), self.template(&entry.value, escape)))
            .collect()
    }

    /// The keys of a map become variables, so they must be names.
    pub fn check_names(&self, node: Option<&Node>, what: &str) {
        for entry in node.map(Node::entries).unwrap_or_default() {
            if entry.value.text().is_some_and(is_arithmetic) {
                let text = shorten(entry.value.text().unwrap_or_default());
                self.warn(entry.value.place, format!("nothing is calculated: `{text}` is set as a text"))
                    .help(
                        "numbers that count are `${iteration}` and `${vu.iteration}`, random ones \
                         `${random.int(1, 10)}`; rows of numbers can be a data file; what needs arithmetic is a script \
                         (docs/scripts.md)",
                    );
            }
            if !is_name(&entry.key) {
                let message = format!("`{}` cannot name a {what}", shorten(&entry.key));
                self.report(entry.place, message).help(
                    "use letters, digits, `_` and `-`, and none of env, data, use, steps, random, \
                     uuid, timestamp, vu, iteration",
                );
            }
        }
    }

    /// The names in a list, or a single name.
    pub fn names(&self, node: Option<&Node>) -> Vec<String> {
        let items = node.map(Node::one_or_many).unwrap_or_default();
        items.iter().map(|item| item.text().unwrap_or_default().to_owned()).collect()
    }

    pub fn duration(&self, node: Option<&Node>) -> Option<Duration> {
        units::duration(node?.text()?).ok()
    }

    /// Reports a time of zero where it means "never" or "at once, always".
    pub fn not_zero(&self, node: Option<&Node>, duration: Option<Duration>) {
        if let (Some(node), Some(Duration::ZERO)) = (node, duration) {
            self.report(node.place, "a time of 0 cannot be kept")
                .help("give it a positive time, or leave the key out");
        }
    }

    /// A file that must exist, resolved against the plan's folder.
    pub fn file(&self, node: &Node) -> PathBuf {
        let Some(name) = node.text() else {
            return PathBuf::new();
        };
        let path = match self.shipped {
            None => self.base_dir.join(name),
            Some(shipped) => shipped.get(name).cloned().unwrap_or_default(),
        };
        let mut files = self.files.borrow_mut();
        if !files.iter().any(|(known, _)| known == name) {
            files.push((name.to_owned(), path.clone()));
        }
        if path.as_os_str().is_empty() {
            self.report(node.place, format!("the file `{}` was not sent along", shorten(name)))
                .done();
        } else if path.is_dir() {
            self.report(node.place, format!("`{}` is a folder", shorten(name))).done();
        } else if !path.is_file() {
            self.report(node.place, format!("there is no file `{}`", shorten(name)))
                .help(format!("files are found from the plan's folder: {}", path.display()));
        } else if let Err(error) = std::fs::File::open(&path) {
            self.report(node.place, format!("cannot read `{}`: {error}", shorten(name))).done();
        }
        path
    }
}

/// `${page} + 1`: a reference, a sign and a number, or the other way round.
fn is_arithmetic(text: &str) -> bool {
    let spans = spans(text);
    let [(start, end), ..] = spans.as_slice() else { return false };
    let (before, mut after) = (text[..*start].trim(), text[*end..].trim());
    if !before.is_empty() {
        return false;
    }
    let Some(rest) = after.strip_prefix(['+', '*', '-', '/', '%']) else { return false };
    // `${a}-1` and `${a}/2` are names and paths.
    let spaced = text[*end..].starts_with(' ') && rest.starts_with(' ');
    after = rest.trim();
    let is_number =
        !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number && (spaced || text[*end..].starts_with(['+', '*']))
}

/// What the plan itself writes into a URL or a form is encoded here, so that whoever renders a
/// template only has values to escape.
fn encode_text(mut template: Template, escape: Escape) -> Template {
    for part in &mut template.parts {
        if let Part::Text(text) = part {
            match escape {
                Escape::Component => *text = Escape::Component.write_text(text),
                // `?` and `&` mean what they mean there, but a space cannot stand in a URL.
                Escape::Url | Escape::UrlPath | Escape::UrlQuery => {
                    *text = Escape::Url.write_text(text);
                }
                Escape::None | Escape::Header | Escape::Json | Escape::JsonValue => {}
            }
        }
    }
    template
}
