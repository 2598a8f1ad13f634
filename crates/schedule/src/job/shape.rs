//! What a job looks like from here: names, dependencies, and the layering that `plan` and
//! `allocation` made.

use crate::allocation::NumberedWave;

/// Workflows by number; see [`crate::allocation::arrange`] for the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub names: Vec<String>,
    /// For each workflow, those that must complete before it.
    pub depends_on: Vec<Vec<usize>>,
    /// Layer by layer its waves.
    pub layers: Vec<Vec<NumberedWave>>,
    pub setup: bool,
    pub teardown: bool,
}

/// Why a shape cannot be run: a fault of the caller's, since a checked plan never gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadShape {
    Empty,
    /// `depends_on` has another length than `names`.
    Lengths,
    /// In no layer, in two, or not one of `names`.
    NotOnce {
        workflow: usize,
    },
    /// A dependency is not in an earlier layer.
    Order {
        workflow: usize,
        depends_on: usize,
    },
}

impl std::fmt::Display for BadShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadShape::Empty => write!(f, "the job has no workflows"),
            BadShape::Lengths => write!(f, "not every workflow has its list of dependencies"),
            BadShape::NotOnce { workflow } => {
                write!(f, "workflow {workflow} does not stand in exactly one layer")
            }
            BadShape::Order { workflow, depends_on } => {
                write!(f, "workflow {workflow} is not in a later layer than {depends_on}")
            }
        }
    }
}

impl std::error::Error for BadShape {}

impl Shape {
    /// All workflows, earlier layers first.
    pub(super) fn in_order(&self) -> Vec<usize> {
        self.layers.iter().flatten().flatten().map(|(workflow, _)| *workflow).collect()
    }

    pub(super) fn check(&self) -> Result<(), BadShape> {
        let count = self.names.len();
        if count == 0 {
            return Err(BadShape::Empty);
        }
        if self.depends_on.len() != count {
            return Err(BadShape::Lengths);
        }
        let mut layer_of = vec![None; count];
        for (layer, waves) in self.layers.iter().enumerate() {
            for (workflow, _) in waves.iter().flatten() {
                match layer_of.get_mut(*workflow) {
                    Some(slot @ None) => *slot = Some(layer),
                    _ => {
                        return Err(BadShape::NotOnce { workflow: *workflow });
                    }
                }
            }
        }
        for workflow in 0..count {
            let Some(layer) = layer_of[workflow] else {
                return Err(BadShape::NotOnce { workflow });
            };
            for &depends_on in &self.depends_on[workflow] {
                if !matches!(layer_of.get(depends_on), Some(Some(other)) if *other < layer) {
                    return Err(BadShape::Order { workflow, depends_on });
                }
            }
        }
        Ok(())
    }
}
