//! `handleSummary(data)`: once, after everything, with a virtual user of its own that may still
//! make requests.

use permit::SendControl;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use client::{Deadlines, OriginTable, Settings};
use plan::HttpOptions;
use script::host::{Alone, Phase, VuSetup};
use script::log::Logger;
use script::program::Script;
use script::recorder::ScriptRecorder;
use script::thrown::Thrown;
use script::vu::{Argument, Call, Files, Returned, Vu};
use stats::series::SeriesLayout;

/// Calls the script's function on the calling thread. `None`: it returned nothing.
pub fn handle_summary(
    script: &Arc<Script>,
    layout: &Arc<SeriesLayout>,
    http: &HttpOptions,
    logger: &Logger,
    data: &str,
    timeout: Duration,
) -> Result<Option<Files>, Thrown> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| Thrown::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let deadlines: Rc<Deadlines> = Rc::default();
        tokio::task::spawn_local(deadlines.clone().sweep_every(Duration::from_millis(5)));
        let origins = Rc::new(OriginTable::new(http, None));
        let tls = Arc::new(OnceLock::new());
        let settings =
            Settings { http: http.clone(), tls, origins, send_control: SendControl::free() };
        let vu = Vu::new(VuSetup {
            script: script.clone(),
            recorder: Rc::new(ScriptRecorder::new(layout.clone(), None, 0)),
            logger: logger.clone(),
            scenario: Rc::default(),
            environment: Rc::new(Alone),
            settings: Rc::new(settings),
            deadlines,
            local_address: None,
            id_in_test: 0,
            id_in_instance: 0,
        })
        .map_err(|error| Thrown::new(format!("no memory for a stack: {error}")))?;
        vu.init().await?;
        let call = Call {
            function: "handleSummary".into(),
            phase: Phase::Summary,
            argument: Argument::Json(data.into()),
        };
        match tokio::time::timeout(timeout, vu.call(call)).await {
            Ok(result) => Ok(match result? {
                Some(Returned::Files(files)) => Some(files),
                _ => None,
            }),
            Err(_) => Err(Thrown::new("handleSummary() took too long")),
        }
    })
}
