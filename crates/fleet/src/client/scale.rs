//! Multiplying what a job is asked for.
//!
//! A client repeats what had no answer, and a factor that is said twice would count twice. So the
//! client asks what is in force, and sets the product: that can be repeated.

use fence::JobId;
use schedule;

use super::{FleetClient, FleetError, Steering};
use crate::wire::proto::{JobState, JobStatus, SteerReply, WorkflowStatus};

impl FleetClient {
    /// Multiplies users and rates of what runs, of one workflow or of all; each with what its owner
    /// said.
    ///
    /// # Errors
    /// If nothing runs that could be scaled, or one cannot be set; those before it are.
    pub async fn scale(
        &self,
        job: JobId,
        workflow: Option<&str>,
        factor: f64,
    ) -> Result<Vec<(String, SteerReply)>, FleetError> {
        let status = self.status(job).await?;
        let steerings = scaled(&status, workflow, factor);
        let mut done = Vec::new();
        for (name, steering) in steerings.map_err(|why| FleetError::NotScaled { why })? {
            done.push((name, self.steer(job, &steering).await?));
        }
        Ok(done)
    }
}

/// What is to be set, for each workflow that runs.
fn scaled(
    status: &JobStatus,
    workflow: Option<&str>,
    factor: f64,
) -> Result<Vec<(String, Steering)>, String> {
    let names =
        || status.workflows.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
    if status.workflows.is_empty() {
        return Err(match status.state() {
            JobState::Ended => "the job has ended".to_owned(),
            state => format!("nothing of the job runs yet: it is {}", state.word()),
        });
    }
    let wanted = |it: &&WorkflowStatus| workflow.is_none_or(|name| it.name == name);
    let chosen: Vec<&WorkflowStatus> = status.workflows.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let name = workflow.unwrap_or_default();
        return Err(format!("there is no workflow `{name}`; this job has: {}", names()));
    }
    let product = |it: &&WorkflowStatus| {
        let workflow = Some(it.name.clone());
        let steering = match (it.vus_now, it.per_second_now) {
            (Some(vus), _) => Steering::Vus { workflow, vus: schedule::scaled_vus(vus, factor) },
            // In thousandths, as it is counted.
            (None, Some(rate)) => {
                let per_second = (rate * factor * 1e3).round().max(1.0) / 1e3;
                Steering::Rate { workflow, per_second }
            }
            (None, None) => return None,
        };
        Some((it.name.clone(), steering))
    };
    let steerings: Vec<_> = chosen.iter().filter_map(product).collect();
    if steerings.is_empty() {
        let names: Vec<_> =
            chosen.iter().map(|it| format!("{} is {}", it.name, it.state)).collect();
        return Err(format!("nothing runs that could be scaled: {}", names.join(", ")));
    }
    Ok(steerings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow(name: &str, vus_now: Option<u32>, per_second_now: Option<f64>) -> WorkflowStatus {
        WorkflowStatus {
            name: name.to_owned(),
            state: crate::wire::proto::WorkflowState::Running.into(),
            vus_now,
            per_second_now,
            ..Default::default()
        }
    }

    #[test]
    fn what_runs_is_multiplied_and_what_does_not_is_left_alone() {
        let status = JobStatus {
            state: JobState::Running.into(),
            workflows: vec![
                workflow("browse", Some(10), None),
                workflow("buy", None, Some(20.0)),
                workflow("later", None, None),
            ],
            ..JobStatus::default()
        };
        let users =
            |vus| ("browse".to_owned(), Steering::Vus { workflow: Some("browse".to_owned()), vus });
        let rate = |per_second| {
            ("buy".to_owned(), Steering::Rate { workflow: Some("buy".to_owned()), per_second })
        };
        assert_eq!(scaled(&status, None, 2.0), Ok(vec![users(20), rate(40.0)]));
        assert_eq!(scaled(&status, Some("buy"), 0.5), Ok(vec![rate(10.0)]));
        // One step is seen also where ten per cent are less than one user.
        assert_eq!(scaled(&status, Some("browse"), 1.01), Ok(vec![users(11)]));
        let why = scaled(&status, Some("by"), 2.0).unwrap_err();
        assert!(why.contains("no workflow `by`; this job has: browse, buy, later"), "{why}");
        let why = scaled(&status, Some("later"), 2.0).unwrap_err();
        assert!(why.contains("nothing runs that could be scaled"), "{why}");
        let queued = JobStatus { state: JobState::Queued.into(), ..JobStatus::default() };
        assert!(scaled(&queued, None, 2.0).unwrap_err().contains("it is queued"));
    }
}
