//! What the shards of a workflow come to together, wherever they have run.

use plan::Provide;
use schedule::job::WorkflowEnd;

use crate::shard::ShardEnd;

/// How a workflow's load has ended. `ends`: of all its shards.
pub fn load_end<'a>(ends: impl IntoIterator<Item = &'a ShardEnd> + Clone) -> WorkflowEnd {
    let sum = |of: fn(&ShardEnd) -> u64| -> u64 { ends.clone().into_iter().map(of).sum() };
    let (failures, begun) = (sum(|end| end.setup_failures), sum(|end| end.users_begun));
    if let Some(key) = ends.clone().into_iter().find_map(|end| end.secret_provided.as_ref()) {
        return WorkflowEnd::Error(format!(
            "`provide: {key}` would hand on a secret; write `${{secret.NAME}}` where it is needed"
        ));
    }
    if failures > 0 && begun == 0 {
        let message = format!("no virtual user got through its vu_setup ({failures} failed)");
        WorkflowEnd::Error(message)
    } else if ends.into_iter().any(|end| end.stopped) {
        WorkflowEnd::Stopped
    } else {
        WorkflowEnd::Ok
    }
}

/// By key: the lowest shard's value, or all of them as a JSON list. `ends`: in order of shards.
pub fn collect_provided<'a>(
    provide: &[Provide],
    ends: impl IntoIterator<Item = &'a ShardEnd>,
) -> Vec<(String, Vec<u8>)> {
    let ends: Vec<&ShardEnd> = ends.into_iter().collect();
    let mut all = Vec::new();
    for (number, one) in provide.iter().enumerate() {
        let mut values = ends.iter().filter_map(|end| end.provided.get(number).cloned().flatten());
        let value = if one.collect {
            let texts: Vec<String> =
                values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect();
            Some(serde_json::json!(texts).to_string().into_bytes())
        } else {
            values.next()
        };
        all.extend(value.map(|value| (one.key.clone(), value)));
    }
    all
}
