//! Faults of the network. A link has at most one at a time: turmoil cannot tell two of them apart
//! when one ends.

use std::collections::BTreeMap;

use fastrand::Rng;
use turmoil::Sim;

/// Two hosts, the lower number first.
pub type Link = (usize, usize);

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Loses everything, both ways.
    Cut,
    /// Loses everything from one to the other.
    OneWay {
        from: usize,
        to: usize,
    },
    /// Keeps everything back.
    Held,
    Slow,
}

pub struct Net {
    nodes: usize,
    troubled: BTreeMap<Link, Trouble>,
    usual_latency: (std::time::Duration, std::time::Duration),
}

pub fn name(host: usize) -> String {
    format!("n{}", host + 1)
}

impl Net {
    pub fn new(nodes: usize, usual_latency: (std::time::Duration, std::time::Duration)) -> Self {
        Self { nodes, troubled: BTreeMap::new(), usual_latency }
    }

    /// All links between the hosts.
    pub fn links(&self) -> impl Iterator<Item = Link> + use<> {
        let nodes = self.nodes;
        (0..nodes).flat_map(move |a| (a + 1..nodes).map(move |b| (a, b)))
    }

    /// The links that end at this host.
    pub fn links_of(&self, host: usize) -> Vec<Link> {
        self.links().filter(|(a, b)| *a == host || *b == host).collect()
    }

    /// Nothing comes through, either way.
    pub fn is_cut(&self, link: Link) -> bool {
        self.troubled.get(&link) == Some(&Trouble::Cut)
    }

    /// A link without trouble.
    pub fn pick_healthy(&self, random: &mut Rng) -> Option<Link> {
        let healthy: Vec<Link> =
            self.links().filter(|link| !self.troubled.contains_key(link)).collect();
        (!healthy.is_empty()).then(|| healthy[random.usize(0..healthy.len())])
    }

    /// Makes trouble; false if the link already has some.
    pub fn trouble(
        &mut self,
        sim: &mut Sim<'_>,
        link: Link,
        trouble: Trouble,
        random: &mut Rng,
    ) -> bool {
        if self.troubled.contains_key(&link) {
            return false;
        }
        let (a, b) = (name(link.0), name(link.1));
        match trouble {
            Trouble::Cut => sim.partition(a, b),
            Trouble::OneWay { from, to } => sim.partition_oneway(name(from), name(to)),
            Trouble::Held => sim.hold(a, b),
            Trouble::Slow => {
                let latency = std::time::Duration::from_millis(random.u64(100..=1_500));
                sim.set_link_max_message_latency(a, b, latency);
            }
        }
        self.troubled.insert(link, trouble);
        true
    }

    /// Ends it. What was held comes now; what was lost stays lost.
    pub fn relieve(&mut self, sim: &mut Sim<'_>, link: Link) {
        let Some(trouble) = self.troubled.remove(&link) else { return };
        let (a, b) = (name(link.0), name(link.1));
        match trouble {
            Trouble::Cut => sim.repair(a, b),
            Trouble::OneWay { from, to } => sim.repair_oneway(name(from), name(to)),
            Trouble::Held => sim.release(a, b),
            Trouble::Slow => sim.set_link_max_message_latency(a, b, self.usual_latency.1),
        }
    }

    /// Ends all of it.
    pub fn relieve_all(&mut self, sim: &mut Sim<'_>) {
        for link in self.links() {
            self.relieve(sim, link);
        }
    }

    /// Lets some of what a held link carries through, in any order. Says how much came out of turn.
    pub fn shuffle(&self, sim: &Sim<'_>, link: Link, random: &mut Rng) -> u64 {
        if self.troubled.get(&link) != Some(&Trouble::Held) {
            return 0;
        }
        let ends = (sim.lookup(name(link.0)), sim.lookup(name(link.1)));
        let mut out_of_turn = 0;
        sim.links(|links| {
            for found in links {
                let (a, b) = found.pair();
                if (a, b) != ends && (b, a) != ends {
                    continue;
                }
                let mut kept_one = false;
                for sent in found {
                    if random.bool() {
                        out_of_turn += u64::from(kept_one);
                        sent.deliver();
                    } else {
                        kept_one = true;
                    }
                }
            }
        });
        out_of_turn
    }
}
