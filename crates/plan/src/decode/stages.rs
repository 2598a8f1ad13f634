//! Stages of ramps: what each ramps to, and whether they make any load.

use std::time::Duration;

use super::load::Decoder;
use crate::methods::WARMUP;
use crate::model::Stage;
use crate::tree::{Node, shorten};

impl Decoder<'_> {
    pub fn stages<T>(&self, target: impl Fn(&Node) -> T) -> Vec<Stage<T>> {
        let items = self.node.get("stages").map(Node::items).unwrap_or_default();
        let stage = |item: &Node| {
            let to = item.get("to").filter(|to| to.text().is_some())?;
            Some(Stage {
                name: item.get("name").and_then(Node::text).map(str::to_owned),
                to: target(to),
                over: self.cx.duration(item.get("over")).unwrap_or_default(),
            })
        };
        items.iter().filter_map(stage).collect()
    }

    pub fn check_stages<T>(&self, stages: &[Stage<T>], idle: bool, idle_message: &str) {
        let Some(list) = self.node.get("stages") else {
            self.cx
                .report(self.node.place, "the key `stages` is missing in load")
                .help("for example `stages: [ { to: 50, over: 10s } ]`");
            return;
        };
        if list.items().is_empty() {
            self.cx.report(list.place, "there are no stages").help("add `{ to: 50, over: 10s }`");
            return;
        }
        // Stages that could not be read are reported already.
        if stages.len() < list.items().len() {
            return;
        }
        let total: Duration = stages.iter().map(|stage| stage.over).sum();
        if total.is_zero() {
            self.cx.report(list.place, "the stages take no time").help("give `over` a time");
        } else if idle {
            self.cx.report(list.place, idle_message).help("set `to` to more than 0");
        }
        self.stage_names(list);
    }

    fn stage_names(&self, list: &Node) {
        let named = |item: &Node| item.get("name").and_then(Node::text).map(str::to_owned);
        let names: Vec<Option<String>> = list.items().iter().map(named).collect();
        for (index, name) in names.iter().enumerate() {
            let Some(name) = name else { continue };
            let place = list.items()[index].get("name").unwrap_or(list).place;
            if name == WARMUP {
                self.cx
                    .report(place, "`warmup` names the warm-up, not a stage")
                    .help("use the key `warmup` of load, or another name");
            } else if names[..index].contains(&Some(name.clone())) {
                self.cx.report(place, format!("two stages are called `{}`", shorten(name))).done();
            }
        }
    }
}
